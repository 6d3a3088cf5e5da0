// Images (N, C, H, W).
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

// x (N, C, H, W), weight (O, C, KH, KW), bias (O) -> (N, O, OH, OW), channels last, in x's dtype.
Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window);
Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape);
struct Conv2dWeightGrad {
  Array weight, bias;  // in `dtype`; bias undefined unless asked for
};
Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype);

struct MaxPool {
  Array y, index;
};
MaxPool max_pool2d(const Array& x, const Window& window);
Array max_pool2d_grad(const Array& grad_y, const Array& index, const Window& window, const Shape& x_shape);

}  // namespace tandem::ops
