// Convolutions of small images of few channels, such as those of MNIST. A library turns them into matrices that are
// padded to the sizes of tensor cores. The products of such small images take only a fraction of the time that it takes
// to start and end a kernel. These kernels read the images directly, and compute in f32.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>

#include <optional>

namespace tandem::cuda {

// Both functions return false, and do nothing, if these kernels do not support the convolution. All images are channels
// last and of one dtype, f32, bf16 or f16.

// y (N, O, OH, OW) = the convolution of x (N, 1, H, W) with weight (O, 1, KH, KW), plus bias (O), which may be null.
// The weight and the bias are dense, in y's dtype.
bool convolve_one_channel(const Array& x, const Array& weight, const Array* bias, const Window& window, const Array& y);

// The gradients of the weight (O, C, K, K), channels last, and of the bias (O), for a window of 3 x 3 or 5 x 5 with
// stride 1. C * O is at most 512, and 4 divides O.
bool few_channels_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                              const std::optional<Array>& grad_bias);

}  // namespace tandem::cuda
