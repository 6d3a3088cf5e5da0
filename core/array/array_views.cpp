#include <tandem/core/array/array.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tandem {

namespace {

// Returns the strides with which an array of shape `wanted` refers to the same elements, if such strides exist. A group
// of adjacent old dimensions that is contiguous in itself may be split and merged freely.
std::optional<Strides> view_strides(const Shape& shape, const Strides& strides, const Shape& wanted) {
  Shape sizes;
  Strides steps;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == 1) continue;  // nothing uses the stride of a dimension of size 1
    sizes.push_back(shape[i]);
    steps.push_back(strides[i]);
  }
  Strides result = Dims::filled(wanted.ndim(), 1);
  int w = wanted.ndim() - 1;
  for (int i = sizes.ndim() - 1; i >= 0;) {
    const std::int64_t group_stride = steps[i];
    std::int64_t group_size = sizes[i--];
    while (i >= 0 && steps[i] == group_stride * group_size) group_size *= sizes[i--];
    std::int64_t used = 1;
    while (w >= 0 && (used < group_size || wanted[w] == 1)) {
      if (group_size % (used * wanted[w]) != 0) return std::nullopt;
      result[w] = group_stride * used;
      used *= wanted[w--];
    }
    if (used != group_size) return std::nullopt;
  }
  return result;
}

// Returns `wanted`, with a size of -1 replaced by the computed size. `of` names the elements in errors.
template <class... Of>
Shape resolve_shape(const Shape& wanted, std::int64_t elements, const char* operation, const Of&... of) {
  Shape shape = wanted;
  int unknown = -1;
  for (int i = 0; i < shape.ndim(); ++i) {
    TANDEM_CHECK(shape[i] >= -1, operation, ": ", wanted, " has a negative size");
    if (shape[i] >= 0) continue;
    TANDEM_CHECK(unknown < 0, operation, ": only one size can be -1, got ", wanted);
    unknown = i;
    shape[i] = 1;
  }
  if (unknown >= 0) {
    const std::int64_t known = shape.product();
    TANDEM_CHECK(known > 0, operation, ": ", of..., " to ", wanted, " does not determine the size at -1");
    shape[unknown] = elements / known;
  }
  TANDEM_CHECK(shape.product() == elements, operation, ": the ", elements, " elements of ", of..., " do not fill ",
               wanted);
  return shape;
}

std::optional<Strides> strides_of_view(const Array& array, const Shape& shape) {
  if (array.numel() == 0 || array.is_contiguous()) return contiguous_strides(shape);
  return view_strides(array.shape(), array.strides(), shape);
}

// Returns the dimensions in `dims` that are not in the set `dropped` (one bit per dimension).
Dims without(const Dims& dims, unsigned dropped) {
  Dims kept;
  for (int i = 0; i < dims.ndim(); ++i)
    if (!(dropped >> i & 1u)) kept.push_back(dims[i]);
  return kept;
}

// Returns the array without the dimensions in the set `among` whose size is 1.
Array without_ones(const Array& array, unsigned among) {
  for (int i = 0; i < array.ndim(); ++i)
    if (array.shape()[i] != 1) among &= ~(1u << i);
  return Array(array.storage(), without(array.shape(), among), without(array.strides(), among), array.offset(),
               array.dtype());
}

}  // namespace

Array Array::view(const Shape& wanted) const {
  const Shape shape = resolve_shape(wanted, numel(), "view", shape_);
  const auto strides = strides_of_view(*this, shape);
  TANDEM_CHECK(strides, "view: an array of shape ", shape_, " with strides ", strides_, " has no view of shape ",
               wanted, "; use reshape, which copies if necessary");
  return Array(storage_, shape, *strides, offset_, dtype_);
}

Array Array::reshape(const Shape& wanted) const {
  const Shape shape = resolve_shape(wanted, numel(), "reshape", shape_);
  if (const auto strides = strides_of_view(*this, shape)) return Array(storage_, shape, *strides, offset_, dtype_);
  return Array(contiguous()).reshape(shape);
}

Array Array::flatten(std::int64_t from_dim, std::int64_t to_dim) const {
  if (ndim() == 0) {
    TANDEM_CHECK(from_dim >= -1 && from_dim <= 0 && to_dim >= -1 && to_dim <= 0, "flatten: got dimensions ", from_dim,
                 " to ", to_dim, ", but a scalar has only dimension 0");
    return reshape({1});
  }
  const int first = normalize_dim(from_dim, ndim()), last = normalize_dim(to_dim, ndim());
  TANDEM_CHECK(first <= last, "flatten: dimension ", from_dim, " comes after ", to_dim, " in ", shape_);
  Shape shape, joined;
  for (int i = 0; i < ndim(); ++i) {
    (i < first || i > last ? shape : joined).push_back(shape_[i]);
    if (i == last) shape.push_back(joined.product());
  }
  return reshape(shape);
}

Array Array::unflatten(std::int64_t dim, const Shape& sizes) const {
  const int d = normalize_dim(dim, ndim());
  TANDEM_CHECK(sizes.ndim() > 0, "unflatten: needs sizes for dimension ", d, " of ", shape_);
  const Shape inner = resolve_shape(sizes, shape_[d], "unflatten", "dimension ", d, " of ", shape_);
  const Strides within = contiguous_strides(inner);
  Shape shape;
  Strides strides;
  for (int i = 0; i < ndim(); ++i) {
    if (i != d) {
      shape.push_back(shape_[i]);
      strides.push_back(strides_[i]);
      continue;
    }
    for (int j = 0; j < inner.ndim(); ++j) {
      shape.push_back(inner[j]);
      strides.push_back(within[j] * strides_[d]);
    }
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::permute(const Dims& order) const {
  TANDEM_CHECK(order.ndim() == ndim(), "permute: order ", order, " must name each of the ", ndim(), " dimensions once");
  Shape shape = shape_;
  Strides strides = strides_;
  mask_of(order, ndim(), "permute");  // throws an Error if a dimension occurs twice
  for (int i = 0; i < ndim(); ++i) {
    const int from = normalize_dim(order[i], ndim());
    shape[i] = shape_[from];
    strides[i] = strides_[from];
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::transpose(std::int64_t a, std::int64_t b) const {
  // As in PyTorch, a scalar may be addressed like an array with one dimension.
  const int i = normalize_dim(a, std::max(ndim(), 1)), j = normalize_dim(b, std::max(ndim(), 1));
  if (ndim() == 0) return *this;
  Array result = *this;
  std::swap(result.shape_[i], result.shape_[j]);
  std::swap(result.strides_[i], result.strides_[j]);
  return result;
}

Array Array::movedim(std::int64_t from, std::int64_t to) const {
  const int source = normalize_dim(from, ndim()), target = normalize_dim(to, ndim());
  Dims order;
  for (int i = 0; i < ndim(); ++i)
    order.push_back(i == target                                                    ? source
                    : i < std::min(source, target) || i > std::max(source, target) ? i
                    : source < target                                              ? i + 1
                                                                                   : i - 1);
  return permute(order);
}

Array Array::slice(std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  const int d = normalize_dim(dim, ndim());
  TANDEM_CHECK(step > 0, "slice: step must be positive, got ", step);
  const std::int64_t size = shape_[d];
  const auto clamped = [size](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? std::max(i, -size) + size : i, 0, size);
  };
  const std::int64_t first = clamped(begin), length = std::max<std::int64_t>(clamped(end) - first, 0);
  Array result = *this;
  result.shape_[d] = length == 0 ? 0 : (length - 1) / step + 1;
  if (result.shape_[d] > 1) result.strides_[d] *= step;
  if (length > 0) result.offset_ += first * strides_[d];
  return result;
}

Array Array::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  const int d = normalize_dim(dim, ndim());
  const std::int64_t first = start < 0 ? start + shape_[d] : start;
  TANDEM_CHECK(0 <= first && first <= shape_[d] && 0 <= length && length <= shape_[d] - first, "narrow: ", length,
               " elements from ", start, " on exceed dimension ", d, " of ", shape_);
  return slice(d, first, first + length);
}

Array Array::select(std::int64_t dim, std::int64_t index) const {
  const int d = normalize_dim(dim, ndim());
  TANDEM_CHECK(-shape_[d] <= index && index < shape_[d], "select: index ", index, " is out of range for dimension ", d,
               " of ", shape_);
  return Array(storage_, without(shape_, 1u << d), without(strides_, 1u << d),
               offset_ + (index < 0 ? index + shape_[d] : index) * strides_[d], dtype_);
}

Array Array::expand(const Shape& wanted) const {
  const int lead = wanted.ndim() - ndim();
  TANDEM_CHECK(lead >= 0, "expand: ", shape_, " has more dimensions than ", wanted);
  Shape shape = wanted;
  Strides strides = Dims::filled(wanted.ndim(), 0);
  for (int i = 0; i < wanted.ndim(); ++i) {
    if (i < lead) {
      TANDEM_CHECK(wanted[i] >= 0, "expand: ", wanted, " has a negative size in a new dimension");
      continue;
    }
    if (wanted[i] == -1) shape[i] = shape_[i - lead];
    if (shape_[i - lead] == shape[i]) strides[i] = strides_[i - lead];
    else TANDEM_CHECK(shape_[i - lead] == 1 && shape[i] >= 0, "expand: ", shape_, " does not broadcast to ", wanted);
  }
  shape.product();  // throws an Error if the number of elements does not fit in 64 bits
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::squeeze() const { return without_ones(*this, ~0u); }

Array Array::squeeze(std::int64_t dim) const { return squeeze(Dims{dim}); }

Array Array::squeeze(const Dims& dims) const {
  return without_ones(*this, mask_of(dims, std::max(ndim(), 1), "squeeze"));
}

Array Array::unsqueeze(std::int64_t dim) const {
  TANDEM_CHECK(-ndim() - 1 <= dim && dim <= ndim(), "unsqueeze: a dimension can't be inserted at ", dim, " in ", shape_,
               "; expected ", -ndim() - 1, " to ", ndim());
  const int d = normalize_dim(dim, ndim() + 1);
  Shape shape;
  Strides strides;
  for (int i = 0; i <= ndim(); ++i) {
    if (i == d) {
      shape.push_back(1);
      strides.push_back(i < ndim() ? strides_[i] * shape_[i] : 1);
    }
    if (i < ndim()) {
      shape.push_back(shape_[i]);
      strides.push_back(strides_[i]);
    }
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::reversed(int dim) const {
  Strides strides = strides_;
  const std::int64_t last = std::max<std::int64_t>(shape_[dim] - 1, 0) * strides[dim];
  strides[dim] = -strides[dim];
  return Array(storage_, shape_, strides, offset_ + last, dtype_);
}

Array Array::diagonal(std::int64_t offset, std::int64_t dim1, std::int64_t dim2) const {
  const int a = normalize_dim(dim1, ndim()), b = normalize_dim(dim2, ndim());
  TANDEM_CHECK(a != b, "diagonal: dimensions ", dim1, " and ", dim2, " of ", shape_, " are the same");
  const std::int64_t skipped = offset < 0 ? a : b;
  const std::int64_t rows = offset < 0 ? (offset < -shape_[a] ? 0 : shape_[a] + offset) : shape_[a];
  const std::int64_t columns = offset > 0 ? std::max<std::int64_t>(shape_[b] - offset, 0) : shape_[b];
  const unsigned both = 1u << a | 1u << b;
  Shape shape = without(shape_, both);
  Strides strides = without(strides_, both);
  shape.push_back(std::min(rows, columns));
  strides.push_back(strides_[a] + strides_[b]);
  const std::int64_t first =
      std::min(rows, columns) > 0 ? (offset < 0 ? -offset : offset) * strides_[static_cast<int>(skipped)] : 0;
  return Array(storage_, shape, strides, offset_ + first, dtype_);
}

}  // namespace tandem
