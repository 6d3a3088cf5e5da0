#pragma once

#include <tandem/autograd/functions/attention.h>
#include <tandem/nn/linear.h>

#include <array>

namespace tandem::nn {

struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;        // the share of the weights that become 0 in training
  bool batch_first = false;  // query is (N, L, E), not (L, N, E); key and value too
  // The numbers of features of key and value; default: embed_dim.
  std::optional<std::int64_t> kdim = std::nullopt, vdim = std::nullopt;
};

// Masks are as torch.nn.MultiheadAttention takes them: true (or -infinity) marks a key that may NOT be looked at. In
// scaled_dot_product_attention true marks the keys that may be looked at.
struct MultiheadAttentionInputs {
  Tensor key_padding_mask = {};  // (N, S)
  bool need_weights = true;      // when false, less is computed and kept
  Tensor attn_mask = {};         // (L, S) or (N * num_heads, L, S)
  bool average_attn_weights = true;
  bool is_causal = false;  // query i looks at keys 0 .. i; not together with attn_mask
};

// Attention of several heads (Vaswani et al., arXiv:1706.03762). query (L, N, E), key (S, N, E) and value (S, N, E). N
// comes first with batch_first, and may be missing. in_proj_weight (3 E, E) holds the projections of query, key and
// value below each other. When kdim or vdim is given, q_proj_weight (E, E), k_proj_weight (E, kdim) and v_proj_weight
// (E, vdim) take the place of in_proj_weight.
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options = {});

  struct Result {
    Tensor output;   // in the shape of query
    Tensor weights;  // (N, L, S), the mean over heads, or (N, num_heads, L, S); undefined without need_weights
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
  // Attention of x to itself, without weights.
  Tensor forward(const Tensor& x) override { return forward(x, x, x, {.need_weights = false}).output; }
  std::string describe() const override { return describe_as(embed_dim_, ", ", num_heads_, " heads"); }

 private:
  // The projections of the three, each (.., .., embed_dim). `is_self`: all three are the same Tensor, and one product
  // computes them where their weights are in one.
  std::array<Tensor, 3> projected(const Tensor& query, const Tensor& key, const Tensor& value, bool is_self) const;

  std::int64_t embed_dim_, num_heads_, key_dim_, value_dim_;
  MultiheadAttentionOptions options_;

 public:
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear& out_proj;
};

}  // namespace tandem::nn
