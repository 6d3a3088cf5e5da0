// Attention.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

struct ScaledDotProductAttentionOptions {
  // A mask that broadcasts to (..., L, S). A bool mask is true where a query may look at a key. A floating mask holds
  // numbers that are added to the scores.
  Tensor attn_mask = {};
  double dropout_p = 0;                        // share of the weights that become 0; the caller passes 0 in evaluation
  bool is_causal = false;                      // query i looks at keys 0 .. i; not together with attn_mask
  std::optional<double> scale = std::nullopt;  // default: 1 / sqrt(E)
};

// softmax(query key^T * scale + mask) value: query (..., L, E), key (..., S, E), value (..., S, F) -> (..., L, F).
// Leading dimensions broadcast. A query that may look at no key gives 0. On the CPU the weights are never held as a
// whole: memory grows with L + S, not with L * S. Exceptions are f64, and a mask that needs a gradient.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const ScaledDotProductAttentionOptions& options = {});

// The weights (..., L, S) by which scaled_dot_product_attention() multiplies `value`.
Tensor attention_weights(const Tensor& query, const Tensor& key, const ScaledDotProductAttentionOptions& options = {});

}  // namespace tandem
