#include <tandem/core/ops.h>
#include <tandem/nn/attention.h>
#include <tandem/nn/init.h>

#include <limits>

namespace tandem::nn {

namespace {

// Returns the mask as numbers that are added to the scores. `true` in a bool mask hides a key and becomes -infinity. A
// numeric mask stays unchanged.
Tensor added(const Tensor& mask) {
  if (mask.dtype() != DType::boolean) return mask;
  return Tensor(ops::map(functors::Log{}, ops::map(functors::Affine{-1, 1}, mask.value().to(DType::f32))));
}

Tensor causal(std::int64_t queries, std::int64_t keys, Device device) {
  const double nothing = -std::numeric_limits<double>::infinity();
  return triu(Tensor(ops::full({queries, keys}, nothing, DType::f32, device)), 1);
}

// The sizes in one call.
struct Sizes {
  std::int64_t batch, heads, queries, keys;
};

// Combines both masks of the inputs into one for the scores (N, heads, queries, keys). `is_single`: the inputs and
// key_padding_mask have no batch dimension.
ScaledDotProductAttentionOptions masked(ScaledDotProductAttentionOptions options,
                                        const MultiheadAttentionInputs& inputs, const Sizes& sizes, bool is_single,
                                        Device device) {
  const auto [batch, heads, queries, keys] = sizes;
  options.is_causal = inputs.is_causal;
  if (inputs.attn_mask.defined()) {
    const Tensor& mask = inputs.attn_mask;
    TANDEM_CHECK(mask.shape() == Shape({queries, keys}) || mask.shape() == Shape({batch * heads, queries, keys}),
                 "MultiheadAttention: attn_mask ", mask.shape(), " must be ", Shape{queries, keys}, " or ",
                 Shape{batch * heads, queries, keys});
    const Tensor numbers = added(mask);
    options.attn_mask = mask.shape().ndim() == 2 ? numbers : reshape(numbers, {batch, heads, queries, keys});
  }
  if (!inputs.key_padding_mask.defined()) return options;
  const Tensor& mask = inputs.key_padding_mask;
  const Shape wanted = is_single ? Shape{keys} : Shape{batch, keys};
  TANDEM_CHECK(mask.shape() == wanted, "MultiheadAttention: key_padding_mask ", mask.shape(), " must be ", wanted);
  if (options.is_causal) {
    TANDEM_CHECK(!inputs.attn_mask.defined(), "MultiheadAttention: attn_mask and is_causal can't be combined");
    options.attn_mask = causal(queries, keys, device);
    options.is_causal = false;
  }
  const Tensor padding = reshape(added(mask), {batch, 1, 1, keys});
  options.attn_mask = options.attn_mask.defined() ? options.attn_mask + padding : padding;
  return options;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim),
      num_heads_(num_heads),
      key_dim_(options.kdim.value_or(embed_dim)),
      value_dim_(options.vdim.value_or(embed_dim)),
      options_(options),
      out_proj(add("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}))) {
  TANDEM_CHECK(num_heads > 0 && embed_dim % num_heads == 0, "MultiheadAttention: embed_dim ", embed_dim,
               " can't be divided into ", num_heads, " heads");
  const auto add_weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    Tensor weight = add_parameter(name, ops::zeros({rows, columns}));
    init::xavier_uniform_(weight);
    return weight;
  };
  if (key_dim_ == embed_dim && value_dim_ == embed_dim) {
    in_proj_weight = add_weight("in_proj_weight", 3 * embed_dim, embed_dim);
  } else {
    q_proj_weight = add_weight("q_proj_weight", embed_dim, embed_dim);
    k_proj_weight = add_weight("k_proj_weight", embed_dim, key_dim_);
    v_proj_weight = add_weight("v_proj_weight", embed_dim, value_dim_);
  }
  if (!options.bias) return;
  in_proj_bias = add_parameter("in_proj_bias", ops::zeros({3 * embed_dim}));
  out_proj.bias.set_value(ops::zeros({embed_dim}));
}

std::array<Tensor, 3> MultiheadAttention::projected(const Tensor& query, const Tensor& key, const Tensor& value,
                                                    bool is_self) const {
  // Projects x with parts begin to end - 1 of the three.
  const auto project = [&](const Tensor& x, std::int64_t begin, std::int64_t end) {
    const bool whole = begin == 0 && end == 3;
    const auto rows = [&](const Tensor& of) {
      return whole || !of.defined() ? of : narrow(of, 0, begin * embed_dim_, (end - begin) * embed_dim_);
    };
    const Tensor own[] = {q_proj_weight, k_proj_weight, v_proj_weight};
    return linear(x, in_proj_weight.defined() ? rows(in_proj_weight) : own[begin], rows(in_proj_bias));
  };
  if (!is_self || !in_proj_weight.defined()) return {project(query, 0, 1), project(key, 1, 2), project(value, 2, 3)};
  const auto parts = chunk(project(query, 0, 3), 3, -1);
  return {parts[0], parts[1], parts[2]};
}

MultiheadAttention::Result MultiheadAttention::forward(const Tensor& query_in, const Tensor& key_in,
                                                       const Tensor& value_in, const MultiheadAttentionInputs& inputs) {
  const int ndim = query_in.shape().ndim();
  for (const auto& [x, size] :
       {std::pair(query_in, embed_dim_), std::pair(key_in, key_dim_), std::pair(value_in, value_dim_)})
    TANDEM_CHECK((ndim == 2 || ndim == 3) && x.shape().ndim() == ndim && x.dim(-1) == size,
                 "MultiheadAttention: query ", query_in.shape(), ", key ", key_in.shape(), " and value ",
                 value_in.shape(), " must be (", options_.batch_first ? "N, L, " : "L, N, ",
                 "size) or (L, size) with the sizes ", embed_dim_, ", ", key_dim_, " and ", value_dim_);
  const bool is_single = ndim == 2, batch_first = options_.batch_first || is_single;
  const auto batched = [&](const Tensor& x) { return is_single ? unsqueeze(x, 0) : x; };
  const bool is_self = query_in.same_as(key_in) && key_in.same_as(value_in);
  const Tensor query = batched(query_in), key = is_self ? query : batched(key_in),
               value = is_self ? query : batched(value_in);
  const int batch_dim = batch_first ? 0 : 1, length_dim = 1 - batch_dim;
  const std::int64_t batch = query.dim(batch_dim), length = query.dim(length_dim), keys = key.dim(length_dim);
  TANDEM_CHECK(value.dim(length_dim) == keys && key.dim(batch_dim) == batch && value.dim(batch_dim) == batch,
               "MultiheadAttention: query ", query_in.shape(), ", key ", key_in.shape(), " and value ",
               value_in.shape(),
               " do not fit: key and value must have the same length, and all three the same batch size");

  auto [q, k, v] = projected(query, key, value, is_self);
  // The heads are views (N, heads, L, head size) of the projections.
  const std::int64_t head_dim = embed_dim_ / num_heads_;
  const auto heads = [&](const Tensor& x) {
    const Tensor split = reshape(x, {x.dim(0), x.dim(1), num_heads_, head_dim});
    return permute(split, batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
  };
  q = heads(q);
  k = heads(k);
  v = heads(v);

  const ScaledDotProductAttentionOptions options = masked({.dropout_p = is_training() ? options_.dropout : 0}, inputs,
                                                          {batch, num_heads_, length, keys}, is_single, query.device());
  Result result;
  Tensor y;
  if (inputs.need_weights) {
    result.weights = attention_weights(q, k, options);
    if (options.dropout_p > 0) result.weights = dropout(result.weights, options.dropout_p);
    y = matmul(result.weights, v);
    if (inputs.average_attn_weights) result.weights = mean(result.weights, {1});
    if (is_single) {
      const Tensor& w = result.weights;
      result.weights = reshape(w, inputs.average_attn_weights ? Shape{length, keys} : Shape{num_heads_, length, keys});
    }
  } else {
    y = scaled_dot_product_attention(q, k, v, options);
  }
  y = reshape(permute(y, batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3}), query.shape());
  result.output = out_proj(is_single ? reshape(y, {length, embed_dim_}) : y);
  return result;
}

}  // namespace tandem::nn
