#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_shape.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;

Tensor reshape(const Tensor& x, const Shape& shape) {
  const ProfileRange range("reshape");
  return record(
      "reshape", {x}, x.value().reshape(shape),
      [before = x.shape()](const Array& grad, Needs) -> Gradients { return {grad.reshape(before)}; });
}

Tensor flatten(const Tensor& x, std::int64_t from_dim) {
  const ProfileRange range("flatten");
  return record(
      "flatten", {x}, x.value().flatten(from_dim),
      [before = x.shape()](const Array& grad, Needs) -> Gradients { return {grad.reshape(before)}; });
}

Tensor permute(const Tensor& x, const Dims& order) {
  const ProfileRange range("permute");
  const Array value = x.value().permute(order);
  Dims inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[normalize_dim(order[i], order.rank())] = i;
  return record("permute", {x}, value,
                [inverse](const Array& grad, Needs) -> Gradients { return {grad.permute(inverse)}; });
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  const ProfileRange range("transpose");
  return record("transpose", {x}, x.value().transpose(a, b),
                [a, b](const Array& grad, Needs) -> Gradients { return {grad.transpose(a, b)}; });
}

}  // namespace tandem
