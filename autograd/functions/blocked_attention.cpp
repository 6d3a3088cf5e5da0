// Attention with a kernel that never stores all attention weights at once. It adds itself to attention_methods.
#include <tandem/autograd/attention_method.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/blocked_attention.h>

namespace tandem {

using namespace autograd;

namespace {

constexpr const char* attention_name = "scaled_dot_product_attention";

// Appends the two dimensions `rows` and `columns` to the shape `batch`.
Shape with_matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

Shape batch_of(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.ndim() - 2)));
}

Tensor in_blocks(const Tensor& query, const Tensor& key, const Tensor& value,
                 const ScaledDotProductAttentionOptions& options, double scale) {
  const Shape batch = broadcast_shape(broadcast_shape(batch_of(query.shape()), batch_of(key.shape()), attention_name),
                                      batch_of(value.shape()), attention_name);
  const auto expanded = [&](const Tensor& x) { return x.value().expand(with_matrix(batch, x.dim(-2), x.dim(-1))); };
  const Array mask = autograd::value_of(options.attn_mask);
  const AttentionInputs in{
      expanded(query), expanded(key), expanded(value),
      ops::attention_mask(mask, options.is_causal, with_matrix(batch, query.dim(-2), key.dim(-2)), query.dtype()),
      scale};
  const auto forward = ops::attention(in);
  if (!forward) return {};
  return record(
      attention_name, {query, key, value}, forward->y,
      [in, saved_query = Saved(attention_name, in.query), saved_key = Saved(attention_name, in.key),
       saved_value = Saved(attention_name, in.value), saved_y = Saved(attention_name, forward->y),
       log_sum = forward->log_sum, kernel = forward->kernel, shape_query = query.shape(), shape_key = key.shape(),
       shape_value = value.shape()](const Array& grad, Needs) -> Gradients {
        const AttentionInputs inputs{saved_query, saved_key, saved_value, in.mask, in.scale};
        const AttentionGradients g = ops::attention_grad(inputs, {saved_y, log_sum, kernel}, grad);
        return {ops::sum_to(g.query, shape_query), ops::sum_to(g.key, shape_key), ops::sum_to(g.value, shape_value)};
      });
}

}  // namespace

void add_attention_in_blocks() { attention_methods.add(in_blocks); }

}  // namespace tandem
