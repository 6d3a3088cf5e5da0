#pragma once
#include "buckets.h"

// The bytes of the buckets that start before the last gradient of the pass is final. Only their communication can run
// while backward still computes. `ready` lists the parameters in the order in which their gradients become final. The
// buckets start as your Reducer starts them.
inline std::size_t bytes_started_early(const std::vector<std::size_t>& bytes,
                                       const std::vector<std::vector<int>>& buckets, const std::vector<int>& ready) {
  (void)bytes, (void)buckets, (void)ready;
  throw course::NotWritten();  // your code
}

// After the first pass every rank knows in which order its own gradients became final: `mine`. The buckets are rebuilt
// in that order, and all ranks must build the same ones. Every rank ends with the order of rank 0.
inline std::vector<int> agree_on_order(const course::Ring& ring, const std::vector<int>& mine) {
  (void)ring, (void)mine;
  throw course::NotWritten();  // your code
}
