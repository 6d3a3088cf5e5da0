// PlanCache: keeps what a library prepared for each kind of call, so that the library prepares it only once.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

namespace tandem {

// Everything that a plan depends on. Unused entries are 0. The choice of a convolution's method
// (core/cpu/conv/conv2d.cpp) uses the most, 24.
using PlanKey = std::array<std::int64_t, 24>;

// `most` bounds the memory of the cache when inputs keep coming in new sizes: a full cache forgets the plan that was
// not used for the longest time. Only one thread may use a cache at a time.
template <class Plan, std::size_t most>
class PlanCache {
 public:
  // The plan for `key`. On the first request for a key, `build` makes the plan and returns it as a unique_ptr. The
  // reference is valid until the next call.
  template <class Build>
  Plan& get(const PlanKey& key, Build build) {
    if (const auto found = places_.find(key); found != places_.end()) {
      plans_.splice(plans_.begin(), plans_, found->second);
      return *found->second->second;
    }
    std::unique_ptr<Plan> plan = build();
    if (plans_.size() == most) {
      places_.erase(plans_.back().first);
      plans_.pop_back();
    }
    plans_.emplace_front(key, std::move(plan));
    places_.emplace(key, plans_.begin());
    return *plans_.front().second;
  }

 private:
  struct Hash {
    std::size_t operator()(const PlanKey& key) const {
      std::uint64_t h = 14695981039346656037ull;  // FNV-1a
      for (const auto v : key) h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211ull;
      return h;
    }
  };
  using Plans = std::list<std::pair<PlanKey, std::unique_ptr<Plan>>>;  // the last one used comes first
  Plans plans_;
  std::unordered_map<PlanKey, typename Plans::iterator, Hash> places_;
};

}  // namespace tandem
