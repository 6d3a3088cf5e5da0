// The mask and the weights of scaled dot-product attention.
#pragma once

#include <tandem/core/backend/arguments.h>

namespace tandem {

namespace ops {

// Converts a mask to the form that the functions below accept. `mask` is bool (true: the query may attend to the key),
// floating (added to the scores) or undefined (no mask). It broadcasts to `shape`, (..., L, S); otherwise an Error is
// thrown.
AttentionMask attention_mask(const Array& mask, bool is_causal, const Shape& shape, DType dtype);

// Returns softmax(scores * scale + mask) over the last dimension. A row that the mask excludes entirely is 0.
Array attention_weights(const Array& scores, const AttentionMask& mask, double scale);
Array attention_weights_grad(const Array& weights, const Array& grad, double scale);

}  // namespace ops

}  // namespace tandem
