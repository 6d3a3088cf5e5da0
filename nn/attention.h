#pragma once

#include <tandem/autograd/functions/attention.h>
#include <tandem/nn/linear.h>

namespace tandem::nn {

struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;        // of the weights, in training
  bool batch_first = false;  // x is (N, L, E), not (L, N, E)
  // The sizes of key and value; default: embed_dim.
  std::optional<std::int64_t> kdim = std::nullopt, vdim = std::nullopt;
};

// Masks as torch.nn.MultiheadAttention takes them: true (or -infinity) is what may NOT be looked at, other than in
// scaled_dot_product_attention.
struct MultiheadAttentionInputs {
  Tensor key_padding_mask = {};  // (N, S)
  bool need_weights = true;      // without them less is computed and kept
  Tensor attn_mask = {};         // (L, S) or (N * num_heads, L, S)
  bool average_attn_weights = true;
  bool is_causal = false;  // instead of attn_mask: query i looks at keys 0 .. i
};

// Attention of several heads (Vaswani et al., arXiv:1706.03762). query (L, N, E), key and value (S, N, E), or without
// N, or with N first: batch_first. in_proj_weight (3 E, E) has the projections of query, key and value below each
// other; where key or value have a size of their own, there are q_proj_weight (E, E), k_proj_weight (E, kdim) and
// v_proj_weight (E, vdim) in its place.
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options = {});

  struct Result {
    Tensor output;   // as query
    Tensor weights;  // (N, L, S) averaged over heads, or (N, num_heads, L, S); undefined where not asked for
  };
  Result forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const MultiheadAttentionInputs& inputs = {});
  // Of x to itself, without weights.
  Tensor forward(const Tensor& x) override { return forward(x, x, x, {.need_weights = false}).output; }

 private:
  std::int64_t embed_dim_, num_heads_, key_dim_, value_dim_;
  MultiheadAttentionOptions options_;

 public:
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear& out_proj;
};

}  // namespace tandem::nn
