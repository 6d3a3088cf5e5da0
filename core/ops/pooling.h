// Pooling of images (N, C, H, W). Results are channels last, in the dtype of x.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/pooling.h>
#include <tandem/core/formulas/window.h>

namespace tandem::ops {

// Checks the arguments of `operation`, which pools x, and returns a description of the pooling. ceil_mode: the last
// windows may extend beyond the padding.
Pooling pooling_of(const Array& x, const Window& window, bool ceil_mode, const char* operation);
// Describes pooling of x to `outputs` windows, which are adjacent or overlap slightly. A negative number of outputs
// keeps the size of that dimension.
Pooling adaptive_pooling_of(const Array& x, Extent outputs, const char* operation);

struct MaxPool {
  Array y;
  Array index;  // with y's shape: says which element of the window was the maximum
};
MaxPool max_pool2d(const Array& x, const Pooling& pooling);
Array max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling);
Array avg_pool2d(const Array& x, const Pooling& pooling);
Array avg_pool2d_grad(const Array& grad_y, const Pooling& pooling);

inline MaxPool max_pool2d(const Array& x, const Window& window) {
  return max_pool2d(x, pooling_of(x, window, false, "max_pool2d"));
}

}  // namespace tandem::ops
