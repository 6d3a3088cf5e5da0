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
// same kernel also copies `widening`.
void sum_pixels(const Array& grad_y, const Array& sums, const std::optional<Widening>& widening);

// Adds up the parts of a convolution's gradients that several blocks have computed. parts (P, W + B) is dense and f32.
// Each row has the W numbers of the weight's gradient in the order of its memory, then the B numbers of the bias's
// gradient. Those count only if grad_bias is given. Both gradients are dense, and floating.
void sum_parts(const Array& parts, const Array& grad_weight, const std::optional<Array>& grad_bias);

}  // namespace tandem::cuda
