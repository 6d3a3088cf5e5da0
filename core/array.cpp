#include <tandem/core/array.h>
#include <tandem/core/backend.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace tandem {

Array::Array(std::shared_ptr<Storage> storage, Shape shape, Strides strides, std::int64_t offset, DType dtype)
    : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_(offset), dtype_(dtype) {}

namespace {

Array empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device) {
  for (const auto size : shape) TANDEM_CHECK(size >= 0, "empty: shape ", shape, " has a negative size");
  const auto elements = static_cast<std::size_t>(shape.product());
  constexpr std::size_t most_bytes = std::size_t{1} << 62;
  TANDEM_CHECK(elements <= most_bytes / size_of(dtype), "empty: shape ", shape, " of ", dtype,
               " is more than any memory holds");
  const auto bytes = elements * size_of(dtype);
  return Array(std::make_shared<Storage>(bytes, device), shape, strides, 0, dtype);
}

// Whether `strides` walk `shape` in the order of `dense`, ignoring dimensions of size 1 (their stride is never used).
bool same_walk(const Shape& shape, const Strides& strides, const Strides& dense) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  return true;
}

// The strides that show the same elements under `wanted`, where they exist: each group of adjacent old dimensions that
// is itself contiguous may be split and joined freely.
std::optional<Strides> view_strides(const Shape& shape, const Strides& strides, const Shape& wanted) {
  Shape sizes;
  Strides steps;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;  // its stride says nothing
    sizes.push_back(shape[i]);
    steps.push_back(strides[i]);
  }
  Strides result = Dims::filled(wanted.rank(), 1);
  int w = wanted.rank() - 1;
  for (int i = sizes.rank() - 1; i >= 0;) {
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

}  // namespace

Array Array::empty(const Shape& shape, DType dtype, Device device) {
  return empty_strided(shape, contiguous_strides(shape), dtype, device);
}

Array Array::empty_channels_last(const Shape& shape, DType dtype, Device device) {
  return empty_strided(shape, channels_last_strides(shape), dtype, device);
}

template <class T>
Array Array::from(std::span<const T> values, const Shape& shape) {
  TANDEM_CHECK(static_cast<std::int64_t>(values.size()) == shape.product(), "from: ", values.size(),
               " values do not fill shape ", shape);
  Array result = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), result.data<T>());
  return result;
}

bool Array::is_contiguous() const { return same_walk(shape_, strides_, contiguous_strides(shape_)); }

bool Array::is_channels_last() const {
  return rank() == 4 && same_walk(shape_, strides_, channels_last_strides(shape_));
}

Array Array::reshape(const Shape& wanted) const {
  Shape shape = wanted;
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    TANDEM_CHECK(shape[i] >= -1, "reshape: ", wanted, " has a negative size");
    if (shape[i] >= 0) continue;
    TANDEM_CHECK(unknown < 0, "reshape: only one size can be -1, got ", wanted);
    unknown = i;
    shape[i] = 1;
  }
  if (unknown >= 0) {
    const std::int64_t known = shape.product();
    TANDEM_CHECK(known > 0, "reshape: ", shape_, " to ", wanted, " leaves the size at -1 open");
    shape[unknown] = numel() / known;
  }
  TANDEM_CHECK(shape.product() == numel(), "reshape: ", shape_, " has ", numel(),
               " elements, which do not fill ", wanted);
  if (numel() == 0 || is_contiguous())
    return Array(storage_, shape, contiguous_strides(shape), offset_, dtype_);
  if (const auto strides = view_strides(shape_, strides_, shape))
    return Array(storage_, shape, *strides, offset_, dtype_);
  return contiguous().reshape(shape);
}

Array Array::flatten(std::int64_t from_dim) const {
  if (rank() == 0) return reshape({1});
  Shape shape;
  const int first = normalize_dim(from_dim, rank());
  for (int i = 0; i < first; ++i) shape.push_back(shape_[i]);
  std::int64_t rest = 1;
  for (int i = first; i < rank(); ++i) rest *= shape_[i];
  shape.push_back(rest);
  return reshape(shape);
}

Array Array::permute(const Dims& order) const {
  TANDEM_CHECK(order.rank() == rank(), "permute: order ", order, " must name each of the ", rank(),
               " dimensions once");
  Shape shape = shape_;
  Strides strides = strides_;
  unsigned seen = 0;
  for (int i = 0; i < rank(); ++i) {
    const int from = normalize_dim(order[i], rank());
    TANDEM_CHECK(!(seen >> from & 1u), "permute: order ", order, " names dimension ", from, " twice");
    seen |= 1u << from;
    shape[i] = shape_[from];
    strides[i] = strides_[from];
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::transpose(std::int64_t a, std::int64_t b) const {
  Dims order;
  for (int i = 0; i < rank(); ++i) order.push_back(i);
  std::swap(order[normalize_dim(a, rank())], order[normalize_dim(b, rank())]);
  return permute(order);
}

Array Array::slice(std::int64_t dim, std::int64_t begin, std::int64_t end) const {
  const int d = normalize_dim(dim, rank());
  TANDEM_CHECK(0 <= begin && begin <= end && end <= shape_[d], "slice: [", begin, ", ", end,
               ") is outside of dimension ", d, " of ", shape_);
  Shape shape = shape_;
  shape[d] = end - begin;
  return Array(storage_, shape, strides_, offset_ + begin * strides_[d], dtype_);
}

Array Array::select(std::int64_t dim, std::int64_t index) const {
  return slice(dim, index, index + 1).squeeze(dim);
}

Array Array::expand(const Shape& wanted) const {
  const int lead = wanted.rank() - rank();
  TANDEM_CHECK(lead >= 0, "expand: ", shape_, " has more dimensions than ", wanted);
  Strides strides = Dims::filled(wanted.rank(), 0);
  for (int i = 0; i < rank(); ++i) {
    if (shape_[i] == wanted[lead + i]) strides[lead + i] = strides_[i];
    else TANDEM_CHECK(shape_[i] == 1, "expand: ", shape_, " does not broadcast to ", wanted);
  }
  return Array(storage_, wanted, strides, offset_, dtype_);
}

Array Array::squeeze(std::int64_t dim) const {
  const int d = normalize_dim(dim, rank());
  TANDEM_CHECK(shape_[d] == 1, "squeeze: dimension ", d, " of ", shape_, " is not 1");
  Shape shape;
  Strides strides;
  for (int i = 0; i < rank(); ++i) {
    if (i == d) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::unsqueeze(std::int64_t dim) const {
  const int d = normalize_dim(dim, rank() + 1);
  Shape shape;
  Strides strides;
  for (int i = 0; i <= rank(); ++i) {
    if (i == d) {
      shape.push_back(1);
      strides.push_back(i < rank() ? strides_[i] * shape_[i] : 1);
    }
    if (i < rank()) {
      shape.push_back(shape_[i]);
      strides.push_back(strides_[i]);
    }
  }
  return Array(storage_, shape, strides, offset_, dtype_);
}

Array Array::contiguous() const { return is_contiguous() ? *this : clone(); }

Array Array::channels_last() const {
  TANDEM_CHECK(rank() == 4, "channels_last: needs shape (N, C, H, W), got ", shape_);
  if (is_channels_last()) return *this;
  Array result = empty_channels_last(shape_, dtype_, device());
  result.copy_from(*this);
  return result;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array result = rank() == 4 && is_channels_last() ? empty_channels_last(shape_, dtype, device())
                                                   : empty(shape_, dtype, device());
  result.copy_from(*this);
  return result;
}

Array Array::to(Device device) const {
  if (device == this->device()) return *this;
  Array result = is_channels_last() && !is_contiguous() ? empty_channels_last(shape_, dtype_, device)
                                                        : empty(shape_, dtype_, device);
  result.copy_from(*this);
  return result;
}

Array Array::clone() const {
  Array result = empty(shape_, dtype_, device());
  result.copy_from(*this);
  return result;
}

namespace {

// Between devices, by way of the host where neither is the CPU. Only dense runs of bytes travel.
void copy_across(const Array& from, const Array& to) {
  const bool same_walk = from.dtype() == to.dtype() && ((from.is_contiguous() && to.is_contiguous()) ||
                                                        (from.is_channels_last() && to.is_channels_last()));
  if (!same_walk) {
    Array there = Array::empty(from.shape(), to.dtype(), to.device());
    copy_across(from.to(to.dtype()).contiguous(), there);
    backend(to.device()).copy(there, to);
  } else if (to.device().is_cpu()) {
    backend(from.device()).download(from.raw(), to.raw(), to.bytes());
  } else if (from.device().is_cpu()) {
    backend(to.device()).upload(from.raw(), to.raw(), to.bytes());
  } else {
    const Array here = Array::empty(from.shape(), from.dtype());
    backend(from.device()).download(from.raw(), here.raw(), here.bytes());
    backend(to.device()).upload(here.raw(), to.raw(), to.bytes());
  }
}

}  // namespace

void Array::copy_from(const Array& source) {
  const Array expanded = source.expand(shape_);
  if (numel() == 0) return;
  if (source.device() == device()) backend(device()).copy(expanded, *this);
  else copy_across(expanded, *this);
  storage_->written_by("copy_from");
}

void Array::fill(double value) {
  if (numel() == 0) return;
  backend(device()).fill(*this, value);
  storage_->written_by("fill");
}

double Array::item() const {
  TANDEM_CHECK(defined() && numel() == 1, "item: needs exactly one element, got shape ", shape_);
  return to_vector<double>()[0];
}

template <class T>
std::vector<T> Array::to_vector() const {
  const Array dense = to(Device{}).to(dtype_of<T>()).contiguous();
  const T* data = dense.data<T>();
  return std::vector<T>(data, data + dense.numel());
}

#define TANDEM_INSTANTIATE(T)                                      \
  template Array Array::from<T>(std::span<const T>, const Shape&); \
  template std::vector<T> Array::to_vector<T>() const;
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
TANDEM_INSTANTIATE(bfloat16)
TANDEM_INSTANTIATE(float16)
TANDEM_INSTANTIATE(std::int64_t)
TANDEM_INSTANTIATE(std::int32_t)
TANDEM_INSTANTIATE(std::uint8_t)
#undef TANDEM_INSTANTIATE

}  // namespace tandem
