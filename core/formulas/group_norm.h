// GroupNorm: normalisation within groups of channels (Wu, He, arXiv:1803.08494), and layer normalisation as a case of
// it.
#pragma once

#include <cstdint>

namespace tandem {

// Normalisation within groups of channels, sample by sample. In memory x is (samples, before, channels, after), where
// `before` (channels last) or `after` (row-major) is 1. Layer normalisation: a sample is a row of channels, in one
// group.
struct GroupNorm {
  std::int64_t samples, before, channels, after, groups = 1;
  double eps = 1e-5;
  bool is_centred = true;  // false: divides by the root of the mean square, and subtracts nothing
  std::int64_t group_size() const { return before * (channels / groups) * after; }
};

}  // namespace tandem
