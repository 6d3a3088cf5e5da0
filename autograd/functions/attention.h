// Attention.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

struct AttentionOptions {
  // Broadcasts to (..., L, S): bool, true where a query may look at a key; or numbers that are added to the scores.
  Tensor attn_mask = {};
  double dropout_p = 0;                        // share of the weights that become 0; the caller passes 0 in evaluation
  bool is_causal = false;                      // query i looks at keys 0 .. i; not together with attn_mask
  std::optional<double> scale = std::nullopt;  // default: 1 / sqrt(E)
};

// softmax(query key^T * scale + mask) value: query (..., L, E), key (..., S, E), value (..., S, F) -> (..., L, F);
// leading dimensions broadcast. Queries that may look at nothing give 0. On the CPU (but in f64, or where the mask
// needs a gradient) the weights are never held as a whole: memory grows with L + S, not with their product.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

// The weights (..., L, S) that it multiplies value by.
Tensor attention_weights(const Tensor& query, const Tensor& key, const AttentionOptions& options = {});

}  // namespace tandem
