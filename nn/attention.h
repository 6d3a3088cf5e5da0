#pragma once

#include <tandem/autograd/functions/attention.h>
#include <tandem/nn/linear.h>

#include <array>

namespace tandem::nn {

struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;        // fraction of the weights that become 0 in training
  bool batch_first = false;  // query, key and value are (N, L, E) instead of (L, N, E)
  // The number of features in key and value. Both default to embed_dim.
  std::optional<std::int64_t> kdim = std::nullopt, vdim = std::nullopt;
};

// Masks have the meaning of torch.nn.MultiheadAttention: true (or -infinity) marks a key that may NOT be attended to.
// In scaled_dot_product_attention, true marks the keys that may be attended to.
struct MultiheadAttentionInputs {
  Tensor key_padding_mask = {};  // (N, S)
  bool need_weights = true;      // false: saves computation and memory
  Tensor attn_mask = {};         // (L, S) or (N * num_heads, L, S)
  bool average_attn_weights = true;
  bool is_causal = false;  // query i attends to keys 0 .. i; can't be combined with attn_mask
};

// Multi-head attention (Vaswani et al., arXiv:1706.03762). query (L, N, E), key (S, N, E) and value (S, N, E). With
// batch_first, N comes first. N may be missing. in_proj_weight (3 E, E) stacks the projections of query, key and value.
// If kdim or vdim is given, q_proj_weight (E, E), k_proj_weight (E, kdim) and v_proj_weight (E, vdim) replace
// in_proj_weight.
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options = {});

  struct Result {
    Tensor output;   // the shape of query
    Tensor weights;  // (N, L, S), the mean over heads, or (N, num_heads, L, S); undefined if need_weights is false
  };
  Result forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const MultiheadAttentionInputs& inputs = {});
  using Module::operator();
  Result operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const MultiheadAttentionInputs& inputs = {}) {
    Result result;
    result.output = called([&] { return (result = forward(query, key, value, inputs)).output; });
    return result;
  }
  // Self-attention of x, without returning weights.
  Tensor forward(const Tensor& x) override { return forward(x, x, x, {.need_weights = false}).output; }
  std::string describe() const override { return describe_as(embed_dim_, ", ", num_heads_, " heads"); }

 private:
  // Projects query, key and value, each to (.., .., embed_dim). `is_self`: all three are the same Tensor. One product
  // then computes all projections if they share one weight.
  std::array<Tensor, 3> projected(const Tensor& query, const Tensor& key, const Tensor& value, bool is_self) const;

  std::int64_t embed_dim_, num_heads_, key_dim_, value_dim_;
  MultiheadAttentionOptions options_;

 public:
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear& out_proj;
};

}  // namespace tandem::nn
