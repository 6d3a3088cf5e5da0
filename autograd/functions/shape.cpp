#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/profile/profile.h>

#include <algorithm>
#include <memory>

namespace tandem {

using namespace autograd;

namespace {

// Makes a result of x. back(g) turns the gradient g of `value` into the gradient of x.
template <class F>
Tensor made_from(const char* operation, const Tensor& x, Array value, F back) {
  return record(operation, {x}, std::move(value),
                [back = std::move(back)](const Array& grad, Needs) -> Gradients { return {back(grad)}; });
}

Tensor of_other_shape(const char* operation, const Tensor& x, Array value) {
  return made_from(operation, x, std::move(value),
                   [before = x.shape()](const Array& grad) { return grad.reshape(before); });
}

// Makes the part see(x) of x. The gradient of x is an array of zeros, except in that part.
template <class F>
Tensor part_of(const char* operation, const Tensor& x, F see) {
  return made_from(operation, x, see(x.value()), [see, before = x.shape()](const Array& grad) {
    const Array whole = ops::zeros(before, grad.dtype(), grad.device());
    see(whole).copy_from(grad);
    return whole;
  });
}

// Makes the parts see(x, i) of x. The gradients of all parts go into one array. The part whose gradient comes first
// makes that array and passes it on to the node of `whole`. That node runs after those of all parts.
template <class F>
std::vector<Tensor> parts_of(const char* operation, const Tensor& x, std::int64_t count, F see) {
  std::vector<Tensor> parts;
  parts.reserve(static_cast<std::size_t>(count));
  if (!grad_enabled() || !x.requires_grad()) {
    for (std::int64_t i = 0; i < count; ++i) parts.emplace_back(see(x.value(), i));
    return parts;
  }
  // The memory of that array while a backward pass runs. Empty between two backward passes, and after one that failed.
  const auto gathered = std::make_shared<std::weak_ptr<Storage>>();
  const Tensor whole = made_from(operation, x, x.value(), [gathered](const Array& grad) {
    gathered->reset();
    return grad;
  });
  for (std::int64_t i = 0; i < count; ++i)
    parts.push_back(made_from(operation, whole, see(x.value(), i), [=, shape = x.shape()](const Array& grad) {
      const auto there = gathered->lock();
      const Array all = there ? Array(there, shape, contiguous_strides(shape), 0, grad.dtype())
                              : ops::zeros(shape, grad.dtype(), grad.device());
      *gathered = all.storage();
      see(all, i).copy_from(grad);
      return there ? Array() : all;
    }));
  return parts;
}

std::vector<Array> values_of(std::span<const Tensor> tensors) {
  std::vector<Array> values;
  values.reserve(tensors.size());
  for (const Tensor& tensor : tensors) values.push_back(tensor.value());
  return values;
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  const ProfileRange range("view");
  return of_other_shape("view", x, x.value().view(shape));
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  const ProfileRange range("reshape");
  return of_other_shape("reshape", x, x.value().reshape(shape));
}

Tensor flatten(const Tensor& x, std::int64_t from_dim, std::int64_t to_dim) {
  const ProfileRange range("flatten");
  return of_other_shape("flatten", x, x.value().flatten(from_dim, to_dim));
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes) {
  const ProfileRange range("unflatten");
  return of_other_shape("unflatten", x, x.value().unflatten(dim, sizes));
}

Tensor permute(const Tensor& x, const Dims& order) {
  const ProfileRange range("permute");
  Array value = x.value().permute(order);
  Dims inverse = order;
  for (int i = 0; i < order.ndim(); ++i) inverse[normalize_dim(order[i], order.ndim())] = i;
  return made_from("permute", x, std::move(value), [inverse](const Array& grad) { return grad.permute(inverse); });
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  const ProfileRange range("transpose");
  return made_from("transpose", x, x.value().transpose(a, b),
                   [a, b](const Array& grad) { return grad.transpose(a, b); });
}

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) { return transpose(x, a, b); }

Tensor t(const Tensor& x) {
  TANDEM_CHECK(x.shape().ndim() <= 2, "t: needs at most 2 dimensions, got ", x.shape(), "; use transpose or permute");
  return x.shape().ndim() < 2 ? transpose(x, 0, 0) : transpose(x, 0, 1);
}

Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to) {
  const ProfileRange range("movedim");
  return made_from("movedim", x, x.value().movedim(from, to),
                   [from, to](const Array& grad) { return grad.movedim(to, from); });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  const ProfileRange range("expand");
  return made_from("expand", x, x.value().expand(shape),
                   [before = x.shape()](const Array& grad) { return ops::sum_to(grad, before); });
}

Tensor squeeze(const Tensor& x) {
  const ProfileRange range("squeeze");
  return of_other_shape("squeeze", x, x.value().squeeze());
}

Tensor squeeze(const Tensor& x, std::int64_t dim) { return squeeze(x, Dims{dim}); }

Tensor squeeze(const Tensor& x, const Dims& dims) {
  const ProfileRange range("squeeze");
  return of_other_shape("squeeze", x, x.value().squeeze(dims));
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  const ProfileRange range("unsqueeze");
  return of_other_shape("unsqueeze", x, x.value().unsqueeze(dim));
}

Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) {
  const ProfileRange range("slice");
  return part_of("slice", x, [=](const Array& whole) { return whole.slice(dim, begin, end, step); });
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const ProfileRange range("narrow");
  return part_of("narrow", x, [=](const Array& whole) { return whole.narrow(dim, start, length); });
}

Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  const ProfileRange range("select");
  return part_of("select", x, [=](const Array& whole) { return whole.select(dim, index); });
}

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  const ProfileRange range("diagonal");
  return part_of("diagonal", x, [=](const Array& whole) { return whole.diagonal(offset, dim1, dim2); });
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim) {
  const ProfileRange range("split");
  const std::int64_t whole = x.dim(dim);
  TANDEM_CHECK(size > 0 || (size == 0 && whole == 0), "split: parts of ", size, " do not make up dimension ", dim,
               " of ", x.shape());
  const std::int64_t count = whole == 0 ? 1 : (whole - 1) / size + 1;
  return parts_of("split", x, count, [=](const Array& all, std::int64_t i) {
    return all.slice(dim, i * size, i < count - 1 ? (i + 1) * size : whole);
  });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  const ProfileRange range("split");
  std::vector<std::int64_t> starts{0};
  for (const auto size : sizes) {
    TANDEM_CHECK(size >= 0 && size <= x.dim(dim) - starts.back(), "split: ", size, " from ", starts.back(),
                 " on are not all in dimension ", dim, " of ", x.shape());
    starts.push_back(starts.back() + size);
  }
  TANDEM_CHECK(starts.back() == x.dim(dim), "split: the sizes make ", starts.back(), ", dimension ", dim, " of ",
               x.shape(), " has ", x.dim(dim));
  return parts_of("split", x, static_cast<std::int64_t>(sizes.size()),
                  [dim, starts = std::make_shared<const std::vector<std::int64_t>>(std::move(starts))](const Array& all,
                                                                                                       std::int64_t i) {
                    const auto at = static_cast<std::size_t>(i);
                    return all.slice(dim, (*starts)[at], (*starts)[at + 1]);
                  });
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim) {
  const ProfileRange range("chunk");
  TANDEM_CHECK(count > 0, "chunk: needs at least one chunk, got ", count);
  const std::int64_t whole = x.dim(dim);
  TANDEM_CHECK(whole > 0 || count < std::int64_t{1} << 31, "chunk: ", count, " chunks of dimension ", dim, " of ",
               x.shape(), " are more than any list holds");
  if (whole == 0) return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), dim);
  return split(x, (whole - 1) / count + 1, dim);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim) {
  const ProfileRange range("unbind");
  return parts_of("unbind", x, x.dim(dim), [dim](const Array& all, std::int64_t i) { return all.select(dim, i); });
}

Tensor cat(std::span<const Tensor> inputs, std::int64_t dim) {
  const ProfileRange range("cat");
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
  const ProfileRange range("stack");
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

Tensor pad(const Tensor& x, const ops::Padding& padding, PadMode mode, double value) {
  const ProfileRange range("pad");
  return made_from(
      "pad", x, ops::pad(x.value(), padding, mode, value),
      [before = x.shape(), padding, mode](const Array& grad) { return ops::pad_grad(grad, before, padding, mode); });
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const ProfileRange range("roll");
  return made_from("roll", x, ops::roll(x.value(), shifts, dims), [shifts, dims](const Array& grad) {
    Dims back;
    // Whole turns are left out of the shift first, because the smallest integer has no negative.
    const std::int64_t turns = std::max<std::int64_t>(grad.numel(), 1);
    for (const auto shift : shifts) back.push_back(-(shift % turns));
    return ops::roll(grad, back, dims);
  });
}

Tensor flip(const Tensor& x, const Dims& dims) {
  const ProfileRange range("flip");
  return made_from("flip", x, ops::flip(x.value(), dims), [dims](const Array& grad) { return ops::flip(grad, dims); });
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const ProfileRange range("repeat");
  return made_from("repeat", x, ops::repeat(x.value(), repeats), [before = x.shape(), repeats](const Array& grad) {
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
  const ProfileRange range("repeat_interleave");
  return made_from("repeat_interleave", x, ops::repeat_interleave(x.value(), repeats, dim),
                   [before = x.shape(), repeats, dim](const Array& grad) {
                     return ops::repeat_interleave_grad(grad, before, repeats, dim);
                   });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats) {
  return repeat_interleave(reshape(x, {-1}), repeats, 0);
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const ProfileRange range("tril");
  return made_from("tril", x, ops::tril(x.value(), diagonal),
                   [diagonal](const Array& grad) { return ops::tril(grad, diagonal); });
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const ProfileRange range("triu");
  return made_from("triu", x, ops::triu(x.value(), diagonal),
                   [diagonal](const Array& grad) { return ops::triu(grad, diagonal); });
}

Tensor contiguous(const Tensor& x) {
  const ProfileRange range("contiguous");
  if (x.value().is_contiguous()) return x;
  return made_from("contiguous", x, x.value().clone(), [](const Array& grad) { return grad; });
}

Tensor clone(const Tensor& x) {
  const ProfileRange range("clone");
  return made_from("clone", x, x.value().clone(), [](const Array& grad) { return grad; });
}

}  // namespace tandem
