#include <tandem/autograd/functions/index.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

namespace tandem {

using namespace autograd;

namespace {

// The gradient of gather's input x. Each element of `grad` is added at the position that gather read.
Array scattered(const Array& grad, const Shape& shape, std::int64_t dim, const Array& index) {
  Array result = ops::zeros(shape, grad.dtype(), grad.device());
  ops::scatter_add_(result, dim, index, grad);
  return result;
}

// The gradient of scatter's source, which has the shape `shape`. Scatter reads only the part of the source that is as
// large as `index`. The rest gets zero.
Array gathered(const Array& grad, const Shape& shape, std::int64_t dim, const Array& index) {
  Array used = ops::gather(grad, dim, index);
  if (used.shape() == shape) return used;
  Array result = ops::zeros(shape, grad.dtype(), grad.device());
  Array part = result;
  for (int d = 0; d < shape.ndim(); ++d) part = part.narrow(d, 0, used.shape()[d]);
  part.copy_from(used);
  return result;
}

// Returns a copy of `grad` that is zero at the positions that scatter wrote.
Array without_scattered(const Array& grad, std::int64_t dim, const Array& index) {
  Array result = grad.clone();
  ops::scatter_(result, dim, index, ops::scalar(0, grad.dtype(), grad.device()).expand(index.shape()));
  return result;
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Array& index) {
  const Scope scope("index_select");
  return record("index_select", {x}, ops::index_select(x.value(), dim, index),
                [dim, before = x.shape(), saved = Saved("index_select", index)](const Array& grad, Needs) -> Gradients {
                  Array result = ops::zeros(before, grad.dtype(), grad.device());
                  ops::index_add_(result, dim, saved, grad);
                  return {result};
                });
}

Tensor gather(const Tensor& x, std::int64_t dim, const Array& index) {
  const Scope scope("gather");
  return record("gather", {x}, ops::gather(x.value(), dim, index),
                [dim, before = x.shape(), saved = Saved("gather", index)](const Array& grad, Needs) -> Gradients {
                  return {scattered(grad, before, dim, saved)};
                });
}

Tensor take_along_dim(const Tensor& x, const Array& index, std::int64_t dim) {
  const int ndim = x.shape().ndim();
  TANDEM_CHECK(ndim == index.ndim() && ndim > 0, "take_along_dim: x ", x.shape(), " and index ", index.shape(),
               " must have the same number of dimensions");
  const int d = normalize_dim(dim, ndim);
  Shape x_slice = x.shape(), index_slice = index.shape();
  x_slice[d] = index_slice[d] = 1;
  Shape shape = broadcast_shape(x_slice, index_slice, "take_along_dim");
  shape[d] = x.shape()[d];
  const Tensor wide = shape == x.shape() ? x : expand(x, shape);
  shape[d] = index.shape()[d];
  return gather(wide, d, index.expand(shape));
}

Tensor take_along_dim(const Tensor& x, const Array& index) {
  return take_along_dim(reshape(x, {-1}), index.reshape({-1}), 0);
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source) {
  const Scope scope("scatter");
  Array y = x.value().clone();
  ops::scatter_(y, dim, index, source.value());
  return record("scatter", {x, source}, y,
                [dim, shape = source.shape(), saved = Saved("scatter", index)](const Array& grad, Needs needs) {
                  Gradients gradients(2);
                  if (needs[0]) gradients[0] = without_scattered(grad, dim, saved);
                  if (needs[1]) gradients[1] = gathered(grad, shape, dim, saved);
                  return gradients;
                });
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, Number value) {
  return scatter(x, dim, index, Tensor(ops::scalar(value, x.dtype(), x.device()).expand(index.shape())));
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source) {
  const Scope scope("scatter_add");
  Array y = x.value().clone();
  ops::scatter_add_(y, dim, index, source.value());
  return record("scatter_add", {x, source}, y,
                [dim, shape = source.shape(), saved = Saved("scatter_add", index)](const Array& grad, Needs needs) {
                  Gradients gradients(2);
                  if (needs[0]) gradients[0] = grad;
                  if (needs[1]) gradients[1] = gathered(grad, shape, dim, saved);
                  return gradients;
                });
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source, double alpha) {
  const Scope scope("index_add");
  const auto scaled = [alpha](const Array& a) { return alpha == 1 ? a : ops::map(functors::Affine{alpha, 0}, a); };
  Array y = x.value().clone();
  ops::index_add_(y, dim, index, scaled(source.value()));
  return record("index_add", {x, source}, y,
                [=, shape = source.shape(), saved = Saved("index_add", index)](const Array& grad, Needs needs) {
                  Gradients gradients(2);
                  if (needs[0]) gradients[0] = grad;
                  if (needs[1]) gradients[1] = scaled(ops::index_select(grad, dim, saved)).reshape(shape);
                  return gradients;
                });
}

Tensor masked_fill(const Tensor& x, const Array& mask, Number value) {
  const Scope scope("masked_fill");
  return record("masked_fill", {x}, ops::masked_fill(x.value(), mask, value),
                [before = x.shape(), saved = Saved("masked_fill", mask)](const Array& grad, Needs) -> Gradients {
                  return {ops::sum_to(ops::masked_fill(grad, saved, 0), before)};
                });
}

Tensor masked_select(const Tensor& x, const Array& mask) {
  const Scope scope("masked_select");
  const Shape shape = ops::masked_shape(x.value(), mask, "masked_select");
  const Array places = ops::flat_nonzero(mask.expand(shape));
  return record("masked_select", {x}, ops::index_select(x.value().expand(shape).reshape({-1}), 0, places),
                [shape, before = x.shape(), places](const Array& grad, Needs) -> Gradients {
                  Array wide = ops::zeros({shape.product()}, grad.dtype(), grad.device());
                  ops::scatter_(wide, 0, places, grad);
                  return {ops::sum_to(wide.reshape(shape), before)};
                });
}

Array nonzero(const Array& x) { return ops::nonzero(x); }

Array one_hot(const Array& index, std::int64_t num_classes) { return ops::one_hot(index, num_classes); }

Tensor embedding(const Array& index, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  const Scope scope("embedding");
  TANDEM_CHECK(weight.shape().ndim() == 2, "embedding: weight must be (V, D), got ", weight.shape());
  const std::int64_t rows = weight.dim(0);
  if (padding_idx) {
    TANDEM_CHECK(-rows <= *padding_idx && *padding_idx < rows, "embedding: padding_idx ", *padding_idx,
                 " is not the index of a row of weight ", weight.shape());
    if (*padding_idx < 0) *padding_idx += rows;
  }
  Shape shape = index.shape();
  shape.push_back(weight.dim(1));
  constexpr const char* operation = "embedding";
  const Array list = index.reshape({-1});
  return record(
      "embedding", {weight}, ops::index_select(weight.value(), 0, list, operation).reshape(shape),
      [padding_idx, before = weight.shape(), saved = Saved("embedding", list)](const Array& grad, Needs) -> Gradients {
        Array result = ops::zeros(before, grad.dtype(), grad.device());
        ops::index_add_(result, 0, saved, grad.reshape({saved.get().numel(), before[1]}), operation);
        if (padding_idx) result.select(0, *padding_idx).fill(0);
        return {result};
      });
}

}  // namespace tandem
