// Window: how the kernel of a convolution moves over an image.
#pragma once

#include <cstdint>
#include <ostream>

namespace tandem {

// Height, width.
struct Extent {
  std::int64_t h = 1, w = 1;
  Extent() = default;
  Extent(std::int64_t both) : h(both), w(both) {}  // NOLINT: 5 is a 5 x 5 kernel
  Extent(std::int64_t h, std::int64_t w) : h(h), w(w) {}
  bool operator==(const Extent&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, Extent e) { return out << e.h << 'x' << e.w; }

struct Window {  // how a convolution or pooling kernel moves over an image
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;
  std::int64_t groups = 1;  // of a convolution: output channels see only the input channels of their group
};

}  // namespace tandem
