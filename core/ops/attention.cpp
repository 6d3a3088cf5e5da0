#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>

namespace tandem::ops {

AttentionMask attention_mask(const Array& mask, bool is_causal, const Shape& shape, DType dtype) {
  if (!mask.defined()) return {{}, is_causal};
  TANDEM_CHECK(mask.ndim() <= shape.ndim() &&
                   broadcast_shape(mask.shape(), shape, "scaled_dot_product_attention, attn_mask") == shape,
               "scaled_dot_product_attention: attn_mask ", mask.shape(), " does not broadcast to ", shape);
  Array added = mask.to(compute_dtype(dtype));
  if (mask.dtype() == DType::boolean) added = map(functors::Log{}, added);  // 0 or -infinity
  return {added.expand(shape), is_causal};
}

Array attention_weights(const Array& scores, const AttentionMask& mask, double scale) {
  const Array dense = scores.contiguous();
  Array weights = Array::empty(dense.shape(), dense.dtype(), dense.device());
  if (weights.numel() > 0) backend(dense.device()).attention_weights(dense, mask, scale, weights);
  return weights;
}

Array attention_weights_grad(const Array& weights, const Array& grad, double scale) {
  Array grad_scores = Array::empty(weights.shape(), weights.dtype(), weights.device());
  if (weights.numel() > 0)
    backend(weights.device()).attention_weights_grad(weights, grad.contiguous(), scale, grad_scores);
  return grad_scores;
}

}  // namespace tandem::ops
