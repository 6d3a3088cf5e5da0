#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/ops/blocked_attention.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tandem::ops {

namespace {

// Returns new memory whose dimensions, except the last, have the memory order of `like`. (N, H, L, D) may thus be a
// view of (L, N, H, D).
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

std::optional<Attention> attention(const AttentionInputs& in) {
  Shape shape = in.query.shape(), rows;
  shape[shape.ndim() - 1] = in.value.dim(-1);
  for (int d = 0; d + 1 < shape.ndim(); ++d) rows.push_back(shape[d]);
  if (shape.product() == 0 || in.query.numel() == 0 || in.key.numel() == 0) return std::nullopt;
  const Attention result{empty_in_order_of(in.query, shape), Array::empty(rows, DType::f32, in.query.device()),
                         nullptr};
  for (const auto& kernel : blocked_attention_kernels.entries())
    if (kernel.run(laid_out(in), result.y, result.log_sum)) return Attention{result.y, result.log_sum, &kernel};
  return std::nullopt;
}

AttentionGradients attention_grad(const AttentionInputs& in, const Attention& forward, const Array& grad_y) {
  const AttentionGradients gradients{empty_in_order_of(in.query, in.query.shape()),
                                     empty_in_order_of(in.key, in.key.shape()),
                                     empty_in_order_of(in.value, in.value.shape())};
  forward.kernel->run_grad(laid_out(in), forward.y, forward.log_sum, with_matrix_layout(grad_y), gradients);
  return gradients;
}

}  // namespace tandem::ops
