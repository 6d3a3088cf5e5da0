// Shape and Strides: short lists of integers held inline, so that making a view allocates nothing.
#pragma once

#include <tandem/core/base/check.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

namespace tandem {

// A list of at most six int64. Used for shapes (sizes), for strides (in elements) and for lists of dimensions.
class Dims {
 public:
  static constexpr int max_ndim = 6;

  Dims() = default;
  // One entry: sum(x, 1) is sum(x, {1}).
  template <std::integral T>
  requires(!std::same_as<T, bool>) Dims(T value)
      : Dims({static_cast<std::int64_t>(value)}) {}  // NOLINT: meant to be used like a list
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
  // Entry `i`; a negative i counts from the end. Error when there is no such entry.
  constexpr std::int64_t operator[](int i) const { return values_[position(i)]; }
  std::int64_t& operator[](int i) { return values_[position(i)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + ndim_; }
  void push_back(std::int64_t value) {
    TANDEM_CHECK(ndim_ < max_ndim, "an array has at most ", max_ndim, " dimensions");
    values_[ndim_++] = value;
  }

  // The product of all entries: for a shape, the number of elements. The product of an empty list (a scalar's shape) is
  // 1. Error when the product does not fit in 64 bits.
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
    const auto at = static_cast<unsigned>(i < 0 ? i + ndim_ : i);  // still negative: a large number
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

// Row-major strides: the last dimension is adjacent in memory.
Strides contiguous_strides(const Shape& shape);

// Strides of an (N, C, H, W) shape whose memory order is N, H, W, C.
Strides channels_last_strides(const Shape& shape);

// The shape that two operands broadcast to, by NumPy's rules. The Error names `operation` and both shapes.
Shape broadcast_shape(const Shape& a, const Shape& b, const char* operation);

// The dimension that `dim` names: a negative `dim` counts from the end. Error when it is out of range for `ndim`.
int normalize_dim(std::int64_t dim, int ndim);

// One bit for each dimension that `dims` names, of an array with `ndim` dimensions. Error when one comes twice.
unsigned mask_of(const Dims& dims, int ndim, const char* operation);

}  // namespace tandem
