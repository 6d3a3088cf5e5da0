#pragma once
#include <functional>

#include "naive.h"

inline std::vector<std::vector<int>> assign_buckets(const std::vector<std::size_t>& bytes,
                                                    const std::vector<int>& order, std::size_t first, std::size_t cap) {
  std::vector<std::vector<int>> buckets;
  std::size_t held = 0, limit = 0;
  for (const int parameter : order) {
    if (buckets.empty() || held >= limit) {
      limit = buckets.empty() ? first : cap;
      buckets.emplace_back();
      held = 0;
    }
    buckets.back().push_back(parameter);
    held += bytes[parameter];
  }
  return buckets;
}

class Reducer {
 public:
  Reducer(std::vector<std::vector<int>> buckets, std::function<void(int)> start)
      : buckets_(std::move(buckets)), start_(std::move(start)) {}

  void begin_pass() {
    missing_.clear();
    for (const auto& bucket : buckets_) missing_.push_back(bucket.size());
    next_ = 0;
  }

  void gradient_ready(int parameter) {
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      missing_[b] -= std::count(buckets_[b].begin(), buckets_[b].end(), parameter);
    while (next_ < int(buckets_.size()) && missing_[next_] == 0) start_(next_++);
  }

 private:
  std::vector<std::vector<int>> buckets_;
  std::function<void(int)> start_;
  std::vector<int> missing_;  // by bucket: the number of gradients that are not final yet
  int next_ = 0;              // the next bucket to start
};
