#pragma once
#include "buckets.h"

inline std::size_t bytes_started_early(const std::vector<std::size_t>& bytes,
                                       const std::vector<std::vector<int>>& buckets, const std::vector<int>& ready) {
  std::size_t early = 0;
  Reducer reducer(buckets, [&](int b) {
    for (const int parameter : buckets[b]) early += bytes[parameter];
  });
  reducer.begin_pass();
  for (std::size_t i = 0; i + 1 < ready.size(); ++i) reducer.gradient_ready(ready[i]);
  return early;
}

inline std::vector<int> agree_on_order(const course::Ring& ring, const std::vector<int>& mine) {
  std::vector<float> order(mine.begin(), mine.end());
  broadcast(ring, order.data(), order.size());
  return {order.begin(), order.end()};
}
