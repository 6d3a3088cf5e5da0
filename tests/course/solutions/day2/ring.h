#pragma once
#include <utility>

#include "transfer.h"

inline std::pair<std::size_t, std::size_t> chunk(std::size_t size, int c, int world) {
  c = (c % world + world) % world;
  return {size * c / world, size * (c + 1) / world};
}

inline void ring_all_reduce(const course::Ring& ring, float* values, std::size_t size) {
  std::vector<float> arrived(size / ring.world + 1);
  for (int step = 0; step < 2 * (ring.world - 1); ++step) {
    const bool adds = step < ring.world - 1;
    const auto [out, out_end] = chunk(size, ring.rank - step, ring.world);
    const auto [in, in_end] = chunk(size, ring.rank - step - 1, ring.world);
    float* to = adds ? arrived.data() : values + in;
    exchange(ring, values + out, (out_end - out) * sizeof(float), to, (in_end - in) * sizeof(float));
    for (std::size_t i = in; adds && i < in_end; ++i) values[i] += arrived[i - in];
  }
}
