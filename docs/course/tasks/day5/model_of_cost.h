#pragma once
#include "buckets.h"
#include "cost.h"

// The seconds from the beginning of backward until the last bucket ends, if the buckets go one after the other.
// Bucket i is full at `full[i]` and takes `takes[i]`. Buckets start in order.
inline double last_bucket_ends(const std::vector<double>& full, const std::vector<double>& takes) {
  (void)full, (void)takes;
  throw course::NotWritten();  // your code
}

// The cap of `caps` with which the last bucket ends earliest, and the first one of equally good caps. The gradient of
// parameter p has bytes[p] and is final at ready[p], which orders the parameters. All buckets have the same cap. An
// all-reduce costs ring_seconds(world, bytes, latency, bandwidth).
inline std::size_t best_cap(const std::vector<std::size_t>& caps, const std::vector<std::size_t>& bytes,
                            const std::vector<double>& ready, int world, double latency, double bandwidth) {
  (void)caps, (void)bytes, (void)ready, (void)world, (void)latency, (void)bandwidth;
  throw course::NotWritten();  // your code
}
