// The statistics of a channel's numbers that batch norm needs.
#pragma once
#include <vector>

struct Statistics {
  double mean, m2, count;  // m2: the sum of squared distances from the mean
};

// The statistics of the numbers of one channel.
inline Statistics statistics(const std::vector<float>& x) {
  double mean = 0, m2 = 0;
  for (const float value : x) mean += value / double(x.size());
  for (const float value : x) m2 += (value - mean) * (value - mean);
  return {x.empty() ? 0 : mean, m2, double(x.size())};
}
