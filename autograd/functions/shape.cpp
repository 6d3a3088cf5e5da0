#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/reduce.h>

#include <algorithm>

namespace tandem {

using namespace autograd;

namespace {

std::vector<Array> values_of(std::span<const Tensor> tensors) {
  std::vector<Array> values;
  values.reserve(tensors.size());
  for (const Tensor& tensor : tensors) values.push_back(tensor.value());
  return values;
}

}  // namespace

Tensor cat(std::span<const Tensor> inputs, std::int64_t dim) {
  const Scope scope("cat");
  const std::vector<Array> values = values_of(inputs);
  std::vector<Shape> shapes;
  shapes.reserve(values.size());
  for (const Array& value : values) shapes.push_back(value.shape());
  return record("cat", inputs, ops::cat(values, dim),
                [dim, shapes = std::move(shapes)](const Array& grad, Needs needs) {
                  Gradients gradients;
                  gradients.reserve(shapes.size());
                  std::int64_t at = 0;
                  for (const Shape& shape : shapes) {
                    const bool is_skipped = shape == Shape{0};
                    const std::int64_t size = is_skipped ? 0 : shape[normalize_dim(dim, shape.ndim())];
                    if (!needs[static_cast<int>(gradients.size())]) gradients.emplace_back();
                    else if (is_skipped) gradients.push_back(ops::zeros({0}, grad.dtype(), grad.device()));
                    else gradients.push_back(grad.narrow(dim, at, size));
                    at += size;
                  }
                  return gradients;
                });
}

Tensor stack(std::span<const Tensor> inputs, std::int64_t dim) {
  const Scope scope("stack");
  return record("stack", inputs, ops::stack(values_of(inputs), dim),
                [dim, count = inputs.size()](const Array& grad, Needs needs) {
                  Gradients gradients(count);
                  for (std::size_t i = 0; i < count; ++i)
                    if (needs[static_cast<int>(i)]) gradients[i] = grad.select(dim, static_cast<std::int64_t>(i));
                  return gradients;
                });
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, Indexing indexing) {
  const std::size_t count = tensors.size();
  TANDEM_CHECK(0 < count && count <= Dims::max_ndim, "meshgrid: takes 1 to ", Dims::max_ndim, " tensors, got ", count);
  Shape shape;
  for (const Tensor& x : tensors) {
    TANDEM_CHECK(x.shape().ndim() <= 1, "meshgrid: the tensors must be vectors or scalars, got ", x.shape());
    shape.push_back(x.numel());
  }
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < count; ++i) {
    Shape along;
    for (std::size_t d = 0; d < count; ++d) along.push_back(d == i ? tensors[i].numel() : 1);
    const Tensor grid = expand(reshape(tensors[i], along), shape);
    grids.push_back(indexing == Indexing::xy && count > 1 ? transpose(grid, 0, 1) : grid);
  }
  return grids;
}

Tensor pad(const Tensor& x, const ops::Padding& padding, PadMode mode, Number value) {
  const Scope scope("pad");
  return record_unary(
      "pad", x, ops::pad(x.value(), padding, mode, value),
      [before = x.shape(), padding, mode](const Array& grad) { return ops::pad_grad(grad, before, padding, mode); });
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const Scope scope("roll");
  return record_unary("roll", x, ops::roll(x.value(), shifts, dims), [shifts, dims](const Array& grad) {
    Dims back;
    // The shift is reduced modulo the size before the sign changes, because the smallest integer can't be negated.
    const std::int64_t turns = std::max<std::int64_t>(grad.numel(), 1);
    for (const auto shift : shifts) back.push_back(-(shift % turns));
    return ops::roll(grad, back, dims);
  });
}

Tensor flip(const Tensor& x, const Dims& dims) {
  const Scope scope("flip");
  return record_unary("flip", x, ops::flip(x.value(), dims),
                      [dims](const Array& grad) { return ops::flip(grad, dims); });
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const Scope scope("repeat");
  return record_unary("repeat", x, ops::repeat(x.value(), repeats), [before = x.shape(), repeats](const Array& grad) {
    return ops::repeat_grad(grad, before, repeats);
  });
}

Tensor tile(const Tensor& x, const Dims& repeats) {
  Dims all;
  for (int i = repeats.ndim(); i < x.shape().ndim(); ++i) all.push_back(1);
  for (const auto times : repeats) all.push_back(times);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim) {
  const Scope scope("repeat_interleave");
  return record_unary("repeat_interleave", x, ops::repeat_interleave(x.value(), repeats, dim),
                      [before = x.shape(), repeats, dim](const Array& grad) {
                        return ops::repeat_interleave_grad(grad, before, repeats, dim);
                      });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats) {
  return repeat_interleave(reshape(x, {-1}), repeats, 0);
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const Scope scope("tril");
  return record_unary("tril", x, ops::tril(x.value(), diagonal),
                      [diagonal](const Array& grad) { return ops::tril(grad, diagonal); });
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const Scope scope("triu");
  return record_unary("triu", x, ops::triu(x.value(), diagonal),
                      [diagonal](const Array& grad) { return ops::triu(grad, diagonal); });
}

Tensor contiguous(const Tensor& x) {
  const Scope scope("contiguous");
  if (x.value().is_contiguous()) return x;
  return record_unary("contiguous", x, x.value().clone(), [](const Array& grad) { return grad; });
}

Tensor clone(const Tensor& x) {
  const Scope scope("clone");
  return record_unary("clone", x, x.value().clone(), [](const Array& grad) { return grad; });
}

}  // namespace tandem
