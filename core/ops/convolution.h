// Convolution of images (N, C, H, W). Results are channels last, in the dtype of x.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/window.h>

#include <optional>

namespace tandem::ops {

// x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O) -> (N, O, OH, OW).
Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window);
Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape);
struct Conv2dWeightGrad {
  Array weight, bias;  // in `dtype`; bias is undefined unless the caller requests it
};
Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype);

// Computes a convolution's gradient with respect to its input, as a separate operation: x (N, C, H, W), weight (C, O /
// groups, KH, KW), bias (O) -> (N, O, OH, OW), where OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) +
// output_padding + 1.
Array conv_transpose2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                       Extent output_padding);

}  // namespace tandem::ops
