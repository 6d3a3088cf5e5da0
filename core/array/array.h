// Array: numbers on a device. An Array is a small handle: copying it copies no numbers.
#pragma once

#include <tandem/core/array/storage.h>
#include <tandem/core/base/dtype.h>
#include <tandem/core/base/number.h>
#include <tandem/core/base/shape.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace tandem {

// An Array combines a shape, strides and offset (in elements) and a dtype with a shared Storage. A view shares the
// storage of the array that it views. Images have the shape (N, C, H, W), but their memory order is N, H, W, C
// ("channels last"). Several threads may read the same Array. A caller that writes must exclude other threads.
class Array {
 public:
  // The end of a slice that extends to the end of its dimension.
  static constexpr std::int64_t to_end = std::numeric_limits<std::int64_t>::max();

  Array() = default;  // an undefined array has no storage: only defined() and assignment are allowed
  Array(std::shared_ptr<Storage> storage, Shape shape, Strides strides, std::int64_t offset, DType dtype);
  Array(const Array&) = default;
  Array(Array&&) noexcept = default;
  Array& operator=(const Array&) & = default;
  Array& operator=(Array&&) & noexcept = default;
  // x.select(0, 1) = y would change only the handle that select() returns, and no number of x.
  template <class T>
  void operator=(const T&) && {
    static_assert(sizeof(T) == 0,
                  "this assignment would change no number of x: for x.slice(...) = y write "
                  "x.slice(...).copy_from(y), and for a single number x.slice(...).fill(value)");
  }

  // Return uninitialised memory, row-major or channels last. Channels last requires 4 dimensions.
  static Array empty(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Array empty_channels_last(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Array zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});  // row-major
  // Returns a new array in host memory with a copy of `values`.
  template <class T>
  static Array from(std::span<const T> values, const Shape& shape) {
    TANDEM_CHECK(std::ssize(values) == shape.product(), "from: ", values.size(), " values do not fill shape ", shape);
    Array result = empty(shape, dtype_of<T>());
    std::copy(values.begin(), values.end(), result.data<T>());
    return result;
  }
  template <class T>
  static Array from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  // Returns a vector (n) of the given numbers. Their dtype is the one that torch.tensor chooses: i64 for {1, 2, 3}, and
  // f32 for {1.0, 2.5}.
  template <class T, std::size_t n>
  static Array from(const T (&values)[n]) {
    using N = std::conditional_t<std::is_same_v<T, int>, std::int64_t,
                                 std::conditional_t<std::is_same_v<T, double>, float, T>>;
    return from(std::vector<N>(values, values + n));
  }
  template <class T>
  static Array from(const std::vector<T>& values) {
    return from(values, {static_cast<std::int64_t>(values.size())});
  }
  // Returns an array that reads and writes the row-major numbers at `data` in host memory, without copying them.
  // `release` runs when no Array refers to that memory any more. Without `release`, the memory must outlive all of
  // them.
  static Array from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> release = {});

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const& { return shape_; }
  Shape shape() && { return shape_; }  // a temporary returns no reference: it would dangle
  const Strides& strides() const& { return strides_; }
  Strides strides() && { return strides_; }
  int ndim() const { return shape_.ndim(); }
  std::int64_t dim(std::int64_t i) const { return shape_[normalize_dim(i, ndim())]; }
  std::int64_t numel() const { return shape_.product(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const {
    if (!storage_) [[unlikely]]
      fail_undefined();
    return storage_->device();
  }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }

  bool is_contiguous() const;     // row-major without gaps
  bool is_channels_last() const;  // 4 dimensions, memory order N, H, W, C without gaps

  // Returns the address of the first element. data<T>() is for use on the host: it throws an Error unless T is the
  // array's dtype and the array is on the CPU.
  void* raw() const {
    if (!storage_) [[unlikely]]
      fail_undefined();
    return static_cast<char*>(storage_->data()) + offset_ * static_cast<std::int64_t>(size_of(dtype_));
  }
  template <class T>
  T* data() const {
    TANDEM_CHECK(dtype_of<T>() == dtype_, "the array's dtype is ", dtype_, ", not ", dtype_of<T>());
    TANDEM_CHECK(device().is_cpu(), "array is on ", device(),
                 ", whose memory the host can't access: copy it with to(Device{})");
    return static_cast<T*>(raw());
  }

  // Views: they copy no numbers. A negative dimension counts from the end. In view, reshape and unflatten, one size may
  // be -1 and is then computed from the others. Names and meanings are PyTorch's.
  Array view(const Shape& shape) const;     // throws an Error if no view can have the new shape
  Array reshape(const Shape& shape) const;  // copies if no view can have the new shape
  Array flatten(std::int64_t from_dim = 0, std::int64_t to_dim = -1) const;
  Array unflatten(std::int64_t dim, const Shape& sizes) const;
  Array permute(const Dims& order) const;
  Array transpose(std::int64_t a, std::int64_t b) const;
  Array movedim(std::int64_t from, std::int64_t to) const;
  // Returns Python's x[begin:end:step] along `dim`. Negative bounds count from the end. Bounds outside the dimension
  // are clamped to it.
  Array slice(std::int64_t dim, std::int64_t begin, std::int64_t end = to_end, std::int64_t step = 1) const;
  Array narrow(std::int64_t dim, std::int64_t start,
               std::int64_t length) const;                   // throws an Error if the range leaves the dimension
  Array select(std::int64_t dim, std::int64_t index) const;  // drops `dim`
  Array expand(const Shape& shape) const;                    // repeats size-1 dimensions with stride 0; -1 keeps a size
  Array squeeze() const;                                     // drops all dimensions of size 1
  Array squeeze(std::int64_t dim) const;                     // drops `dim` if its size is 1
  Array squeeze(const Dims& dims) const;
  Array unsqueeze(std::int64_t dim) const;
  // The elements (i, i + offset) of the dimensions `dim1` and `dim2` become the last dimension.
  Array diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;

  // Returns a view that is reversed along `dim`. Its stride there is negative, so only copies support it.
  Array reversed(int dim) const;

  // Each of these returns a copy, or the array itself if it already meets the request. clone() always copies.
  Array contiguous() const;
  Array channels_last() const;
  Array to(DType dtype) const;
  Array to(Device device) const;
  Array clone() const;

  // In-place writes. Each of them increments the version of the storage.
  void copy_from(const Array& source);  // any strides, dtypes and devices; source broadcasts to this shape
  void fill(Number value);

  // Returns the only element as a number. Throws an Error unless there is exactly one element, or if it is an integer
  // that a double can't represent exactly. item<std::int64_t>() returns such an integer.
  double item() const;
  template <class T>
  T item() const {
    check_one_element();
    return to_vector<T>()[0];
  }
  // Returns all elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    const Array dense = to(Device{}).to(dtype_of<T>()).contiguous();
    return std::vector<T>(dense.data<T>(), dense.data<T>() + dense.numel());
  }
  std::string to_string() const;  // for people: shape, dtype, device and values (core/array/print.h)

 private:
  [[noreturn]] static void fail_undefined();
  void check_one_element() const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  DType dtype_ = DType::f32;
};

std::ostream& operator<<(std::ostream& out, const Array& array);

// Throws an Error if elements of `target` share memory because it was expanded. Writing to it would write some elements
// twice.
void check_writable(const Array& target, const char* operation);

}  // namespace tandem
