// Shape and Strides: short lists of integers stored inline, so creating a view allocates no memory.
#pragma once

#include <tandem/core/base/check.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace tandem {

// A list of at most six int64 values. Used for shapes (sizes), strides (in elements) and lists of dimensions.
class Dims {
 public:
  static constexpr int max_ndim = 6;

  Dims() = default;
  // Creates a list with one entry: sum(x, 1) means sum(x, {1}).
  template <std::integral T>
  requires(!std::same_as<T, bool>) Dims(T value)
      : Dims({static_cast<std::int64_t>(value)}) {}  // NOLINT: callers write a number like a list
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) {
    TANDEM_CHECK(values.size() <= max_ndim, "an array has at most ", max_ndim, " dimensions, got ", values.size());
    for (const auto v : values) values_[ndim_++] = v;
  }
  static Dims filled(int ndim, std::int64_t value) {
    Dims dims;
    for (int i = 0; i < ndim; ++i) dims.push_back(value);
    return dims;
  }

  constexpr int ndim() const { return ndim_; }
  // Returns entry `i`; a negative i counts from the end. Throws an Error if there is no such entry.
  constexpr std::int64_t operator[](int i) const { return values_[position(i)]; }
  std::int64_t& operator[](int i) { return values_[position(i)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + ndim_; }
  void push_back(std::int64_t value) {
    TANDEM_CHECK(ndim_ < max_ndim, "an array has at most ", max_ndim, " dimensions");
    values_[ndim_++] = value;
  }

  // Returns the product of all entries; for a shape, this is the number of elements. The product of an empty list (a
  // scalar's shape) is 1. Throws an Error if the product does not fit in 64 bits.
  std::int64_t product() const {
    std::int64_t n = 1;
    bool fits = true;
    for (const auto v : *this) fits &= !__builtin_mul_overflow(n, v, &n);
    if (!fits) fail_too_large();
    return n;
  }

  bool operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  [[noreturn]] void fail_too_large() const;
  [[noreturn]] void fail_no_entry(int i) const;
  constexpr unsigned position(int i) const {
    // A value that is still negative becomes a large one.
    const auto at = static_cast<unsigned>(i < 0 ? i + ndim_ : i);
    if (at >= static_cast<unsigned>(ndim_)) [[unlikely]]
      fail_no_entry(i);
    return at;
  }

  std::array<std::int64_t, max_ndim> values_{};
  int ndim_ = 0;
};

using Shape = Dims;
using Strides = Dims;

std::ostream& operator<<(std::ostream& out, const Dims& dims);  // (100, 1, 28, 28)

// Returns row-major strides: the last dimension is adjacent in memory.
Strides contiguous_strides(const Shape& shape);

// Returns the strides of an (N, C, H, W) shape whose memory order is N, H, W, C.
Strides channels_last_strides(const Shape& shape);

// Returns the shape to which two operands broadcast by NumPy's rules. Throws an Error that names `operation` and both
// shapes if they don't broadcast.
Shape broadcast_shape(const Shape& a, const Shape& b, const char* operation);

// Returns the index of dimension `dim`, which counts from the end if it is negative. Throws an Error if it is out of
// range for `ndim`.
int normalize_dim(std::int64_t dim, int ndim);

// Returns a mask with one bit for each dimension in `dims`, of an array with `ndim` dimensions. Throws an Error if a
// dimension occurs twice.
unsigned mask_of(const Dims& dims, int ndim, const char* operation);

}  // namespace tandem
