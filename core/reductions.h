// What a reduction keeps while it goes over numbers, on every device: add() in the order of the elements, merge() for what
// other threads have kept.
#pragma once

#include <tandem/core/array.h>

namespace tandem {

// Sums run in double (i64 for integers): as exact as the result's dtype can show, whatever the order.
template <class T>
struct Sum {
  using Number = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  Number total = 0;
  TANDEM_HOST_DEVICE void add(T value, std::int64_t) { total += static_cast<compute_t<T>>(value); }
  TANDEM_HOST_DEVICE void merge(const Sum& other) { total += other.total; }
};

// The largest and where it was: the first of equals; a NaN is the maximum.
template <class T>
struct Largest {
  compute_t<T> value{};
  std::int64_t index = -1;  // none yet
  TANDEM_HOST_DEVICE void add(T number, std::int64_t i) { merge({static_cast<compute_t<T>>(number), i}); }
  TANDEM_HOST_DEVICE void merge(const Largest& other) {
    if (other.index < 0) return;
    const bool nan = value != value, other_nan = other.value != other.value;
    const bool equal = nan ? other_nan : other.value == value;
    const bool larger = !nan && (other_nan || other.value > value);
    if (index < 0 || larger || (equal && other.index < index)) *this = other;
  }
};

// Splits x's dimensions into those that y keeps and those where it has size 1.
struct ReducePlan {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  ReducePlan(const Array& x, const Array& y) {
    for (int i = 0; i < x.rank(); ++i) {
      const bool reduced = y.shape()[i] == 1;
      (reduced ? reduced_shape : kept_shape).push_back(x.shape()[i]);
      (reduced ? reduced_strides : kept_strides).push_back(x.strides()[i]);
    }
  }
  std::int64_t outputs() const { return kept_shape.product(); }
  std::int64_t count() const { return reduced_shape.product(); }  // elements of x for one of y
  // Whether neighbours in memory belong to different outputs.
  bool keeps_neighbours_apart() const {
    const int last = kept_shape.rank() - 1;
    return last >= 0 && kept_strides[last] == 1 && kept_shape[last] > 1;
  }
};

// Where element `index`, row by row, of a view lies; in elements.
TANDEM_HOST_DEVICE inline std::int64_t offset_of(std::int64_t index, int rank, const std::int64_t* shape,
                                                 const std::int64_t* strides) {
  std::int64_t offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return offset;
}

}  // namespace tandem
