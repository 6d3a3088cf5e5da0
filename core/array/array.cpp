#include <tandem/core/array/array.h>
#include <tandem/core/array/device_memory.h>
#include <tandem/core/array/overlap.h>
#include <tandem/core/base/check.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem {

Array::Array(std::shared_ptr<Storage> storage, Shape shape, Strides strides, std::int64_t offset, DType dtype)
    : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_(offset), dtype_(dtype) {}

void Array::fail_undefined() {
  detail::fail("this Array is undefined: it was created without a value, or stands for a result that was not computed");
}

namespace {

std::size_t bytes_of(const char* function, const Shape& shape, DType dtype) {
  for (const auto size : shape) TANDEM_CHECK(size >= 0, function, ": shape ", shape, " has a negative size");
  const auto elements = static_cast<std::size_t>(shape.product());
  constexpr std::size_t most_bytes = std::size_t{1} << 62;
  TANDEM_CHECK(elements <= most_bytes / size_of(dtype), function, ": shape ", shape, " of ", dtype,
               " does not fit into any memory");
  return elements * size_of(dtype);
}

Array empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device) {
  const std::size_t bytes = bytes_of("empty", shape, dtype);
  return Array(std::make_shared<Storage>(bytes, device), shape, strides, 0, dtype);
}

// Returns whether `strides` visit `shape` in the same order as the strides `dense`. Ignores dimensions of size 1,
// because nothing uses their strides.
bool same_walk(const Shape& shape, const Strides& strides, const Strides& dense) {
  for (int i = 0; i < shape.ndim(); ++i)
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  return true;
}

}  // namespace

Array Array::empty(const Shape& shape, DType dtype, Device device) {
  return empty_strided(shape, contiguous_strides(shape), dtype, device);
}

Array Array::zeros(const Shape& shape, DType dtype, Device device) {
  Array array = empty(shape, dtype, device);
  array.fill(0);
  return array;
}

Array Array::from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release) {
  const std::size_t bytes = bytes_of("from_blob", shape, dtype);
  TANDEM_CHECK(bytes == 0 || (data && reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0),
               "from_blob: ", dtype, " needs an address that is a multiple of ", size_of(dtype), ", got ", data);
  if (!release) release = [] {};  // this array does not own the memory
  return {std::make_shared<Storage>(data, bytes, Device{}, std::move(release)), shape, contiguous_strides(shape), 0,
          dtype};
}

Array Array::empty_channels_last(const Shape& shape, DType dtype, Device device) {
  return empty_strided(shape, channels_last_strides(shape), dtype, device);
}

bool Array::is_contiguous() const { return same_walk(shape_, strides_, contiguous_strides(shape_)); }

bool Array::is_channels_last() const {
  return ndim() == 4 && same_walk(shape_, strides_, channels_last_strides(shape_));
}

namespace {

Array copied(const Array& source, Array memory) {
  memory.copy_from(source);
  return memory;
}

// Returns memory in the order of `a`. An array that is both channels last and row-major counts as row-major.
Array empty_like(const Array& a, DType dtype, Device device) {
  return a.is_channels_last() && !a.is_contiguous() ? Array::empty_channels_last(a.shape(), dtype, device)
                                                    : Array::empty(a.shape(), dtype, device);
}

}  // namespace

Array Array::contiguous() const { return is_contiguous() ? *this : clone(); }

Array Array::channels_last() const {
  TANDEM_CHECK(ndim() == 4, "channels_last: needs shape (N, C, H, W), got ", shape_);
  return is_channels_last() ? *this : copied(*this, empty_channels_last(shape_, dtype_, device()));
}

Array Array::to(DType dtype) const {
  return dtype == dtype_ ? *this : copied(*this, empty_like(*this, dtype, device()));
}

Array Array::to(Device device) const {
  return device == this->device() ? *this : copied(*this, empty_like(*this, dtype_, device));
}

Array Array::clone() const { return copied(*this, empty(shape_, dtype_, device())); }

namespace {

// Copies between two devices, via the host if neither of them is the CPU. Transfers only dense runs of bytes.
void copy_across(const Array& from, const Array& to) {
  const bool same_walk = from.dtype() == to.dtype() && ((from.is_contiguous() && to.is_contiguous()) ||
                                                        (from.is_channels_last() && to.is_channels_last()));
  if (!same_walk) {
    Array there = Array::empty(from.shape(), to.dtype(), to.device());
    copy_across(from.to(to.dtype()).contiguous(), there);
    device_memory(to.device()).copy(there, to);
  } else if (to.device().is_cpu()) {
    device_memory(from.device()).download(from.raw(), to.raw(), to.bytes());
  } else if (from.device().is_cpu()) {
    device_memory(to.device()).upload(from.raw(), to.raw(), to.bytes());
  } else {
    const Array here = Array::empty(from.shape(), from.dtype());
    device_memory(from.device()).download(from.raw(), here.raw(), here.bytes());
    device_memory(to.device()).upload(here.raw(), to.raw(), to.bytes());
  }
}

}  // namespace

void check_writable(const Array& target, const char* operation) {
  if (target.numel() == 0) return;  // an empty target has no elements that could share memory
  for (int i = 0; i < target.ndim(); ++i)
    TANDEM_CHECK(target.strides()[i] != 0 || target.shape()[i] < 2, operation, ": elements of the target of shape ",
                 target.shape(), " share memory (it was expanded); write to a clone()");
}

bool overlap(const Array& target, const Array& source) {
  if (target.device() != source.device()) return false;
  const bool is_same = target.raw() == source.raw() && target.shape() == source.shape() &&
                       target.strides() == source.strides() && target.dtype() == source.dtype();
  if (is_same) return false;
  const auto end = [](const Array& a) {
    std::int64_t last = 0;
    for (int i = 0; i < a.ndim(); ++i) last += (a.shape()[i] - 1) * a.strides()[i];
    return static_cast<const char*>(a.raw()) + (last + 1) * static_cast<std::int64_t>(size_of(a.dtype()));
  };
  return target.raw() < end(source) && source.raw() < end(target);
}

void Array::copy_from(const Array& source) {
  check_writable(*this, "copy_from");
  const Array expanded = source.expand(shape_);
  if (numel() == 0) return;
  if (overlap(*this, source)) return copy_from(source.clone());
  if (source.device() == device()) device_memory(device()).copy(expanded, *this);
  else copy_across(expanded, *this);
  storage_->written_by("copy_from");
}

void Array::fill(Number number) {
  const double value = number.value;
  TANDEM_CHECK(can_hold(dtype_, value), "fill: ", value, " can't be represented as ", dtype_);
  if (numel() == 0) return;
  device_memory(device()).fill(*this, value);
  storage_->written_by("fill");
}

void Array::check_one_element() const {
  TANDEM_CHECK(defined(), "item: this Array is undefined: it was created without a value");
  TANDEM_CHECK(numel() == 1, "item: needs exactly one element, got shape ", shape_);
}

double Array::item() const {
  if (dtype_ == DType::i64) return Number(item<std::int64_t>()).value;
  return item<double>();
}

}  // namespace tandem
