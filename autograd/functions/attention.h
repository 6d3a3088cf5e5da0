// Scaled dot-product attention.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

struct ScaledDotProductAttentionOptions {
  // The mask broadcasts to (..., L, S). A bool mask is true where a query may attend to a key. A floating mask is added
  // to the scores.
  Tensor attn_mask = {};
  double dropout_p = 0;                        // fraction of the weights that become 0; pass 0 in evaluation
  bool is_causal = false;                      // query i attends to keys 0 .. i; can't be combined with attn_mask
  std::optional<double> scale = std::nullopt;  // default: 1 / sqrt(E)
};

// softmax(query key^T * scale + mask) value: query (..., L, E), key (..., S, E), value (..., S, F) -> (..., L, F).
// Leading dimensions broadcast. A query that may attend to no key gives 0. On the CPU, the full matrix of weights is
// never stored, so memory grows with L + S instead of L * S. Exceptions are f64 and a mask that needs a gradient.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const ScaledDotProductAttentionOptions& options = {});

// Returns the weights (..., L, S) by which scaled_dot_product_attention() multiplies `value`.
Tensor attention_weights(const Tensor& query, const Tensor& key, const ScaledDotProductAttentionOptions& options = {});

}  // namespace tandem
