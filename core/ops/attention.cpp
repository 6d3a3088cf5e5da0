#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tandem::ops {

namespace {

DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// New memory whose dimensions but the last lie in the order of like's: (N, H, L, D) may be a view of (L, N, H, D).
Array empty_in_order_of(const Array& like, const Shape& shape) {
  const int last = shape.ndim() - 1;
  std::array<int, Dims::max_ndim> order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.begin() + last,
                   [&](int a, int b) { return like.strides()[a] > like.strides()[b]; });
  Shape in_memory;
  Dims back = shape;
  for (int d = 0; d <= last; ++d) {
    in_memory.push_back(shape[order[static_cast<std::size_t>(d)]]);
    back[order[static_cast<std::size_t>(d)]] = d;
  }
  return Array::empty(in_memory, like.dtype(), like.device()).permute(back);
}

AttentionInputs laid_out(AttentionInputs in) {
  for (Array* a : {&in.query, &in.key, &in.value}) *a = with_matrix_layout(*a);
  return in;
}

}  // namespace

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

std::optional<Attention> attention(const AttentionInputs& in) {
  Shape shape = in.query.shape(), rows;
  shape[shape.ndim() - 1] = in.value.dim(-1);
  for (int d = 0; d + 1 < shape.ndim(); ++d) rows.push_back(shape[d]);
  if (shape.product() == 0 || in.query.numel() == 0 || in.key.numel() == 0) return std::nullopt;
  const Attention result{empty_in_order_of(in.query, shape), Array::empty(rows, DType::f32, in.query.device())};
  if (!backend(in.query.device()).attention(laid_out(in), result.y, result.log_sum)) return std::nullopt;
  return result;
}

AttentionGradients attention_grad(const AttentionInputs& in, const Attention& forward, const Array& grad_y) {
  const AttentionGradients gradients{empty_in_order_of(in.query, in.query.shape()),
                                     empty_in_order_of(in.key, in.key.shape()),
                                     empty_in_order_of(in.value, in.value.shape())};
  backend(in.query.device())
      .attention_grad(laid_out(in), forward.y, forward.log_sum, with_matrix_layout(grad_y), gradients);
  return gradients;
}

}  // namespace tandem::ops
