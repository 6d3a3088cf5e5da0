// If the stride is 1, the gradient of the input of a convolution is also a convolution: that of the outputs' gradient
// with the kernel rotated by half a turn.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/window.h>

namespace tandem::cpu {

// Returns how the rotated kernel moves over the outputs' gradient. Its padding is negative if the convolution's padding
// is larger than the kernel's reach. Methods that can't crop an image check can_rotate().
inline Window rotated(Window window) {
  const auto rest = [](std::int64_t kernel, std::int64_t dilation, std::int64_t padding) {
    return dilation * (kernel - 1) - padding;
  };
  window.padding = {rest(window.kernel.h, window.dilation.h, window.padding.h),
                    rest(window.kernel.w, window.dilation.w, window.padding.w)};
  return window;
}
inline bool can_rotate(const Window& window) {
  const Extent padding = rotated(window).padding;
  return padding.h >= 0 && padding.w >= 0;
}

// Returns a weight (O, C / groups, KH, KW) with each kernel rotated.
inline Array rotated(const Array& weight) { return weight.reversed(2).reversed(3).contiguous(); }

}  // namespace tandem::cpu
