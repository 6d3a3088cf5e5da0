// What scaled dot-product attention is made of.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem {

// What attention may look at.
struct AttentionMask {
  Array added = {};        // (..., L, S) in compute_t of the scores, any strides: added to them; undefined: none
  bool is_causal = false;  // query i sees keys 0 .. i only
};
// softmax(query key^T * scale + mask) value.
struct AttentionInputs {
  Array query, key, value;  // (..., L, E), (..., S, E), (..., S, F)
  AttentionMask mask;
  double scale;
};
// Those of the inputs, in their shapes.
struct AttentionGradients {
  Array query, key, value;
};

namespace ops {

// A mask as the functions below take it: `mask` (bool: true may be looked at; or numbers that are added to the scores;
// undefined: none) broadcasts to (..., L, S) = shape. Error where it does not.
AttentionMask attention_mask(const Array& mask, bool is_causal, const Shape& shape, DType dtype);

// softmax(scores * scale + mask) over the last dimension, 0 where the mask leaves nothing.
Array attention_weights(const Array& scores, const AttentionMask& mask, double scale);
Array attention_weights_grad(const Array& weights, const Array& grad, double scale);

// Attention that keeps only a number for each query beside its result y (..., L, F). Leading dimensions are equal. y
// lies in memory as query does, so that heads that were a view of rows become rows again without a copy.
struct Attention {
  Array y;
  Array log_sum;
};
// Nothing where the device or dtype has no such code.
std::optional<Attention> attention(const AttentionInputs& in);
AttentionGradients attention_grad(const AttentionInputs& in, const Attention& forward, const Array& grad_y);

}  // namespace ops

}  // namespace tandem
