// GroupNorm: normalisation within groups of channels (Wu, He, arXiv:1803.08494). Layer normalisation is a special case.
#pragma once

#include <cstdint>

namespace tandem {

// Describes normalisation within groups of channels, for each sample. In memory x is (samples, before, channels,
// after), where `before` is 1 (row-major) or `after` is 1 (channels last). In layer normalisation, a sample is a row of
// channels, and all channels are in one group.
struct GroupNorm {
  std::int64_t samples, before, channels, after, groups = 1;
  double eps = 1e-5;
  bool is_centred = true;  // false: no mean is subtracted, and x is divided by the root of its mean square
  std::int64_t group_size() const { return before * (channels / groups) * after; }
};

}  // namespace tandem
