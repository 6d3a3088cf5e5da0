#pragma once
#include <cmath>

#include "ring.h"
#include "statistics.h"

inline Statistics combine(const course::Ring& ring, const Statistics& mine) {
  float first[] = {float(mine.count), float(mine.count * mine.mean)};
  ring_all_reduce(ring, first, 2);
  const double mean = first[1] / first[0], off = mine.mean - mean;
  float m2 = mine.m2 + mine.count * off * off;
  ring_all_reduce(ring, &m2, 1);
  return {mean, m2, first[0]};
}

inline std::vector<float> sync_batch_norm_grad(const course::Ring& ring, const std::vector<float>& x,
                                               const Statistics& all, float w, double eps,
                                               const std::vector<float>& dy) {
  const double invstd = 1 / std::sqrt(all.m2 / all.count + eps);
  float sums[2] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums[0] += dy[i];
    sums[1] += dy[i] * (x[i] - all.mean) * invstd;
  }
  if (ring.world > 1) ring_all_reduce(ring, sums, 2);
  std::vector<float> dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double xhat = (x[i] - all.mean) * invstd;
    dx[i] = w * invstd * (dy[i] - sums[0] / all.count - xhat * sums[1] / all.count);
  }
  return dx;
}

inline std::vector<float> batch_norm_grad(const std::vector<float>& x, float w, double eps,
                                          const std::vector<float>& dy) {
  return sync_batch_norm_grad(course::Ring{}, x, statistics(x), w, eps, dy);
}
