#pragma once
#include <cmath>

#include "ring.h"
#include "statistics.h"

// Returns the statistics (statistics.h) of all ranks' numbers, computed from each rank's own statistics. The counts may
// differ, and a count may be 0.
inline Statistics combine(const course::Ring& ring, const Statistics& mine) {
  (void)ring, (void)mine;
  throw course::NotWritten();  // your code
}

// The gradient with respect to x of y = w * (x - mean) / sqrt(m2 / count + eps), whose gradient is dy. The statistics
// are those of x itself.
inline std::vector<float> batch_norm_grad(const std::vector<float>& x, float w, double eps,
                                          const std::vector<float>& dy) {
  (void)x, (void)w, (void)eps, (void)dy;
  throw course::NotWritten();  // your code
}

// The same, but the statistics `all` are those of all ranks' numbers. x and dy belong to this rank.
inline std::vector<float> sync_batch_norm_grad(const course::Ring& ring, const std::vector<float>& x,
                                               const Statistics& all, float w, double eps,
                                               const std::vector<float>& dy) {
  (void)ring, (void)x, (void)all, (void)w, (void)eps, (void)dy;
  throw course::NotWritten();  // your code
}
