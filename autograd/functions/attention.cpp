#include <tandem/autograd/attention_method.h>
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/attention.h>
#include <tandem/autograd/functions/dropout.h>
#include <tandem/autograd/functions/linear.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/attention.h>

#include <cmath>

namespace tandem {

using namespace autograd;

namespace {

constexpr const char* name = "scaled_dot_product_attention";

void check(const Tensor& query, const Tensor& key, const ScaledDotProductAttentionOptions& options) {
  TANDEM_CHECK(query.shape().ndim() >= 2 && key.shape().ndim() >= 2 && query.dim(-1) == key.dim(-1), name, ": query ",
               query.shape(), " and key ", key.shape(), " do not fit: expected (..., L, E) and (..., S, E)");
  TANDEM_CHECK(query.dtype() == key.dtype() && is_floating(query.dtype()), name,
               ": query and key must have the same floating dtype, got ", query.dtype(), " and ", key.dtype());
  TANDEM_CHECK(query.device() == key.device(), name, ": query is on ", query.device(), ", key on ", key.device());
  TANDEM_CHECK(!options.attn_mask.defined() || !options.is_causal, name, ": attn_mask and is_causal can't be combined");
  const Tensor& mask = options.attn_mask;
  TANDEM_CHECK(!mask.defined() || is_floating(mask.dtype()) || mask.dtype() == DType::boolean, name,
               ": attn_mask must be bool or floating, got ", mask.dtype());
  TANDEM_CHECK(!mask.defined() || mask.device() == query.device(), name, ": query is on ", query.device(),
               ", attn_mask on ", mask.device());
  TANDEM_CHECK(options.dropout_p >= 0 && options.dropout_p <= 1, name, ": dropout_p must be between 0 and 1, got ",
               options.dropout_p);
}

double scale_of(const Tensor& query, const ScaledDotProductAttentionOptions& options) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(query.dim(-1))));
}

}  // namespace

Tensor attention_weights(const Tensor& query, const Tensor& key, const ScaledDotProductAttentionOptions& options) {
  check(query, key, options);
  const Tensor scores = matmul(query, transpose(key, -1, -2));
  const Tensor& mask = options.attn_mask;
  const double scale = scale_of(query, options);
  const Array weights = ops::attention_weights(
      scores.value(), ops::attention_mask(value_of(mask), options.is_causal, scores.shape(), scores.dtype()), scale);
  return record(
      "attention_weights", {scores, mask}, weights,
      [saved = Saved("attention_weights", weights), scale, mask_shape = mask.defined() ? mask.shape() : Shape{},
       mask_dtype = mask.defined() ? mask.dtype() : DType::f32](const Array& grad, Needs needs) -> Gradients {
        Gradients gradients(2);
        if (needs[0]) gradients[0] = ops::attention_weights_grad(saved, grad, scale);
        if (needs[1])
          gradients[1] = ops::sum_to(ops::attention_weights_grad(saved, grad, 1), mask_shape).to(mask_dtype);
        return gradients;
      });
}

Tensor scaled_dot_product_attention(const Tensor& query_in, const Tensor& key_in, const Tensor& value_in,
                                    const ScaledDotProductAttentionOptions& options) {
  const Scope scope(name);
  const Tensor query = autocast_low(query_in), key = autocast_low(key_in), value = autocast_low(value_in);
  check(query, key, options);
  TANDEM_CHECK(value.shape().ndim() >= 2 && value.dim(-2) == key.dim(-2), name, ": key ", key.shape(), " and value ",
               value.shape(), " do not fit: expected (..., S, E) and (..., S, F)");
  TANDEM_CHECK(value.dtype() == key.dtype() && value.device() == key.device(), name, ": key is ", key.dtype(), " on ",
               key.device(), ", but value is ", value.dtype(), " on ", value.device());
  const bool drops = options.dropout_p > 0;
  if (!drops && (!options.attn_mask.defined() || !options.attn_mask.requires_grad())) {
    for (const auto& method : attention_methods.entries())
      if (const Tensor y = method(query, key, value, options, scale_of(query, options)); y.defined()) return y;
  }
  const Tensor weights = attention_weights(query, key, options);
  return matmul(drops ? dropout(weights, options.dropout_p) : weights, value);
}

}  // namespace tandem
