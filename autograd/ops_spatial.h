// Images (N, C, H, W), channels last in memory.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/backend.h>

namespace tandem {

// weight (O, C, KH, KW), bias (O) or undefined -> (N, O, OH, OW)
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window);
Tensor max_pool2d(const Tensor& x, const Window& window);

}  // namespace tandem
