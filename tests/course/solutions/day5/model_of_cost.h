#pragma once
#include "buckets.h"
#include "cost.h"

inline double last_bucket_ends(const std::vector<double>& full, const std::vector<double>& takes) {
  double starts = 0, ends = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    starts = std::max(starts, full[i]);
    ends = std::max(starts, ends) + takes[i];
  }
  return ends;
}

inline std::size_t best_cap(const std::vector<std::size_t>& caps, const std::vector<std::size_t>& bytes,
                            const std::vector<double>& ready, int world, double latency, double bandwidth) {
  std::vector<int> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return ready[a] < ready[b]; });
  std::size_t best = 0;
  double earliest = 0;
  for (const std::size_t cap : caps) {
    std::vector<double> full, takes;
    for (const auto& bucket : assign_buckets(bytes, order, cap, cap)) {
      double held = 0;
      for (const int parameter : bucket) held += bytes[parameter];
      full.push_back(ready[bucket.back()]);
      takes.push_back(ring_seconds(world, held, latency, bandwidth));
    }
    const double ends = last_bucket_ends(full, takes);
    if (best == 0 || ends < earliest) best = cap, earliest = ends;
  }
  return best;
}
