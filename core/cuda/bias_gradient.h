// The gradient of a convolution's bias.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::cuda {

// A conversion of `from`, which has 16 bits, to `to`, which is f32. Both are dense, in the same order.
struct Widening {
  Array from, to;
};

// sums (C) = the sum of each channel of grad_y (N, C, H, W), which is channels last. sums is dense, and floating. The
// same kernel also makes the conversion `widening`.
void sum_pixels(const Array& grad_y, const Array& sums, const std::optional<Widening>& widening);

// Adds up the parts of a convolution's gradients that several blocks have computed. parts (P, W + B) is dense and f32.
// Each row has the W numbers of the weight's gradient in the order of its memory, then the B numbers of the bias's
// gradient. The B numbers are used only if grad_bias is given. Both gradients are dense, and floating.
void sum_parts(const Array& parts, const Array& grad_weight, const std::optional<Array>& grad_bias);

}  // namespace tandem::cuda
