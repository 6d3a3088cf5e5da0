// Images (N, C, H, W). Results are channels last, in the dtype of x.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

namespace tandem::ops {

// x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O) -> (N, O, OH, OW).
Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window);
Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape);
struct Conv2dWeightGrad {
  Array weight, bias;  // in `dtype`; bias undefined unless asked for
};
Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype);

// A convolution's gradient with respect to its input, as an operation of its own: x (N, C, H, W), weight (C, O /
// groups, KH, KW), bias (O) -> (N, O, OH, OW), where OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) +
// output_padding + 1.
Array conv_transpose2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                       Extent output_padding);

// Checks the arguments of `operation`, which pools x, and says how it pools. ceil_mode: the last windows may reach
// beyond the padding.
Pooling pooling_of(const Array& x, const Window& window, bool ceil_mode, const char* operation);
// Pooling of x to `outputs` windows, which lie side by side or overlap a little. A negative number of outputs keeps the
// size of that dimension.
Pooling adaptive_pooling_of(const Array& x, Extent outputs, const char* operation);

struct MaxPool {
  Array y;
  Array index;  // of y's shape: which element of the window was the maximum
};
MaxPool max_pool2d(const Array& x, const Pooling& pooling);
Array max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling);
Array avg_pool2d(const Array& x, const Pooling& pooling);
Array avg_pool2d_grad(const Array& grad_y, const Pooling& pooling);

inline MaxPool max_pool2d(const Array& x, const Window& window) {
  return max_pool2d(x, pooling_of(x, window, false, "max_pool2d"));
}

// Brings x to another height and width; the second function gives the gradient.
Array resize(const Array& x, Extent size, const Resize& how);
Array resize_grad(const Array& grad_y, Extent x_size, const Resize& how);

}  // namespace tandem::ops
