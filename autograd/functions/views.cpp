#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/reduce.h>

#include <algorithm>
#include <memory>

namespace tandem {

using namespace autograd;

namespace {

// Returns see(x), which has the same elements in another shape.
template <class F>
Tensor of_other_shape(const char* operation, const Tensor& x, F see) {
  const Scope scope(operation);
  return record_unary(operation, x, see(x.value()),
                      [before = x.shape()](const Array& grad) { return grad.reshape(before); });
}

// Returns the part see(x) of x. The gradient of x is zero outside that part.
template <class F>
Tensor part_of(const char* operation, const Tensor& x, F see) {
  const Scope scope(operation);
  return record_unary(operation, x, see(x.value()), [see, before = x.shape()](const Array& grad) {
    const Array whole = ops::zeros(before, grad.dtype(), grad.device());
    see(whole).copy_from(grad);
    return whole;
  });
}

// Returns the parts see(x, i) of x. The gradients of all parts go into one array. The part whose gradient arrives first
// makes that array and passes it to the node of `whole`. That node runs after the nodes of all parts.
template <class F>
std::vector<Tensor> parts_of(const char* operation, const Tensor& x, std::int64_t count, F see) {
  std::vector<Tensor> parts;
  parts.reserve(static_cast<std::size_t>(count));
  if (!grad_enabled() || !x.requires_grad()) {
    for (std::int64_t i = 0; i < count; ++i) parts.emplace_back(see(x.value(), i));
    return parts;
  }
  // Refers to the memory of that array while a backward pass runs. It is empty between backward passes, and after one
  // that failed.
  const auto gathered = std::make_shared<std::weak_ptr<Storage>>();
  const Tensor whole = record_unary(operation, x, x.value(), [gathered](const Array& grad) {
    gathered->reset();
    return grad;
  });
  for (std::int64_t i = 0; i < count; ++i)
    parts.push_back(record_unary(operation, whole, see(x.value(), i), [=, shape = x.shape()](const Array& grad) {
      const auto there = gathered->lock();
      const Array all = there ? Array(there, shape, contiguous_strides(shape), 0, grad.dtype())
                              : ops::zeros(shape, grad.dtype(), grad.device());
      *gathered = all.storage();
      see(all, i).copy_from(grad);
      return there ? Array() : all;
    }));
  return parts;
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  return of_other_shape("view", x, [&](const Array& a) { return a.view(shape); });
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  return of_other_shape("reshape", x, [&](const Array& a) { return a.reshape(shape); });
}

Tensor flatten(const Tensor& x, std::int64_t from_dim, std::int64_t to_dim) {
  return of_other_shape("flatten", x, [&](const Array& a) { return a.flatten(from_dim, to_dim); });
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes) {
  return of_other_shape("unflatten", x, [&](const Array& a) { return a.unflatten(dim, sizes); });
}

Tensor permute(const Tensor& x, const Dims& order) {
  const Scope scope("permute");
  Array value = x.value().permute(order);
  Dims inverse = order;
  for (int i = 0; i < order.ndim(); ++i) inverse[normalize_dim(order[i], order.ndim())] = i;
  return record_unary("permute", x, std::move(value), [inverse](const Array& grad) { return grad.permute(inverse); });
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  const Scope scope("transpose");
  return record_unary("transpose", x, x.value().transpose(a, b),
                      [a, b](const Array& grad) { return grad.transpose(a, b); });
}

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) { return transpose(x, a, b); }

Tensor t(const Tensor& x) {
  TANDEM_CHECK(x.shape().ndim() <= 2, "t: needs at most 2 dimensions, got ", x.shape(), "; use transpose or permute");
  return x.shape().ndim() < 2 ? transpose(x, 0, 0) : transpose(x, 0, 1);
}

Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to) {
  const Scope scope("movedim");
  return record_unary("movedim", x, x.value().movedim(from, to),
                      [from, to](const Array& grad) { return grad.movedim(to, from); });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  const Scope scope("expand");
  return record_unary("expand", x, x.value().expand(shape),
                      [before = x.shape()](const Array& grad) { return ops::sum_to(grad, before); });
}

Tensor squeeze(const Tensor& x) {
  return of_other_shape("squeeze", x, [&](const Array& a) { return a.squeeze(); });
}

Tensor squeeze(const Tensor& x, std::int64_t dim) { return squeeze(x, Dims{dim}); }

Tensor squeeze(const Tensor& x, const Dims& dims) {
  return of_other_shape("squeeze", x, [&](const Array& a) { return a.squeeze(dims); });
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  return of_other_shape("unsqueeze", x, [&](const Array& a) { return a.unsqueeze(dim); });
}

Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  return part_of("slice", x, [=](const Array& whole) { return whole.slice(dim, begin, end, step); });
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  return part_of("narrow", x, [=](const Array& whole) { return whole.narrow(dim, start, length); });
}

Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return part_of("select", x, [=](const Array& whole) { return whole.select(dim, index); });
}
Tensor Tensor::operator[](std::int64_t i) const { return select(*this, 0, i); }

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  return part_of("diagonal", x, [=](const Array& whole) { return whole.diagonal(offset, dim1, dim2); });
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim) {
  const Scope scope("split");
  const std::int64_t whole = x.dim(dim);
  TANDEM_CHECK(size > 0 || (size == 0 && whole == 0), "split: parts of size ", size, " can't make up dimension ", dim,
               " of ", x.shape());
  const std::int64_t count = whole == 0 ? 1 : (whole - 1) / size + 1;
  return parts_of("split", x, count, [=](const Array& all, std::int64_t i) {
    return all.slice(dim, i * size, i < count - 1 ? (i + 1) * size : whole);
  });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  const Scope scope("split");
  std::vector<std::int64_t> starts{0};
  for (const auto size : sizes) {
    TANDEM_CHECK(size >= 0 && size <= x.dim(dim) - starts.back(), "split: ", size, " elements from position ",
                 starts.back(), " exceed dimension ", dim, " of ", x.shape());
    starts.push_back(starts.back() + size);
  }
  TANDEM_CHECK(starts.back() == x.dim(dim), "split: the sizes add up to ", starts.back(), ", but dimension ", dim,
               " of ", x.shape(), " has ", x.dim(dim));
  return parts_of("split", x, static_cast<std::int64_t>(sizes.size()),
                  [dim, starts = std::make_shared<const std::vector<std::int64_t>>(std::move(starts))](const Array& all,
                                                                                                       std::int64_t i) {
                    const auto at = static_cast<std::size_t>(i);
                    return all.slice(dim, (*starts)[at], (*starts)[at + 1]);
                  });
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim) {
  const Scope scope("chunk");
  TANDEM_CHECK(count > 0, "chunk: needs at least one chunk, got ", count);
  const std::int64_t whole = x.dim(dim);
  TANDEM_CHECK(whole > 0 || count < std::int64_t{1} << 31, "chunk: ", count, " chunks of dimension ", dim, " of ",
               x.shape(), " are too many");
  if (whole == 0) return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), dim);
  return split(x, (whole - 1) / count + 1, dim);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim) {
  const Scope scope("unbind");
  return parts_of("unbind", x, x.dim(dim), [dim](const Array& all, std::int64_t i) { return all.select(dim, i); });
}

}  // namespace tandem
