// Window: how the kernel of a convolution moves over an image.
#pragma once

#include <cstdint>
#include <ostream>

namespace tandem {

// A pair of numbers: one for the height and one for the width.
// An option of this type without a default is required.
struct Extent {
  std::int64_t h, w;
  Extent(std::int64_t both) : h(both), w(both) {}  // an Extent of 5 is 5 x 5
  Extent(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  bool operator==(const Extent&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, Extent e) { return out << e.h << 'x' << e.w; }

// How the kernel of a convolution or pooling moves over an image (N, C, H, W).
struct Window {
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;
  std::int64_t groups = 1;  // of a convolution: output channels see only the input channels of their own group
};

}  // namespace tandem
