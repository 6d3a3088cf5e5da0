// The gradient of a convolution's bias.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::cuda {

// `to`, which is f32, becomes `from`, which has 16 bits. Both are dense in one order.
struct Widening {
  Array from, to;
};

// sums (C) = the sum of each channel of grad_y (N, C, H, W), which is channels last. sums is dense, and floating. The
// same kernel does the widening.
void sum_pixels(const Array& grad_y, const Array& sums, const std::optional<Widening>& widening);

}  // namespace tandem::cuda
