// The arrays of scaled dot-product attention, and its operations.
#pragma once

#include <tandem/core/backend/arguments.h>

namespace tandem {

namespace ops {

// Brings a mask into the form that the functions below take. `mask` is bool (true: the query may look at the key), or
// numbers that are added to the scores, or undefined (no mask). It broadcasts to `shape`, (..., L, S); Error where it
// does not.
AttentionMask attention_mask(const Array& mask, bool is_causal, const Shape& shape, DType dtype);

// softmax(scores * scale + mask) over the last dimension. A row of which the mask leaves nothing is 0.
Array attention_weights(const Array& scores, const AttentionMask& mask, double scale);
Array attention_weights_grad(const Array& weights, const Array& grad, double scale);

}  // namespace ops

}  // namespace tandem
