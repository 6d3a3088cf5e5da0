#pragma once
#include <utility>

#include "transfer.h"

// The beginning and the end of chunk `c` of `size` numbers. All chunks together are all the numbers.
inline std::pair<std::size_t, std::size_t> chunk(std::size_t size, int c, int world) {
  c = (c % world + world) % world;
  return {size * c / world, size * (c + 1) / world};
}

// Replaces `values`, `size` floats, by the sum of all ranks' values. Every rank gets the sum.
inline void ring_all_reduce(const course::Ring& ring, float* values, std::size_t size) {
  (void)ring, (void)values, (void)size;
  throw course::NotWritten();  // your code
}
