// MemoryOrder: the order of dimensions in which a dense array lies in memory, for kernels that want it without gaps.
#pragma once

#include <tandem/core/array/array.h>

#include <algorithm>
#include <utility>

namespace tandem {

// The order is taken from an array. An array that is dense, but has its dimensions in another order in memory (channels
// last, or transposed), gives that order, from the largest stride to the smallest. Any other array gives the order of
// its dimensions. apply() brings arrays into this order and makes them row-major, which needs no copy for a dense array
// in this order. restore() brings a result back into the order of the array's dimensions.
class MemoryOrder {
 public:
  explicit MemoryOrder(const Array& a) : order_(Dims::filled(a.ndim(), 0)) {
    for (int i = 0; i < a.ndim(); ++i) order_[i] = i;
    if (a.is_contiguous()) return;
    Dims sorted = order_;
    std::stable_sort(&sorted[0], &sorted[0] + sorted.ndim(), [&](auto i, auto j) {
      return a.strides()[static_cast<int>(i)] > a.strides()[static_cast<int>(j)];
    });
    if (!a.permute(sorted).is_contiguous()) return;
    order_ = sorted;
    is_identity_ = false;
  }

  // Returns `a`, whose dimensions are those of the array that this order was taken from, so that it is row-major in
  // this order. Copies when `a` lies otherwise in memory.
  Array apply(const Array& a) const { return (is_identity_ ? a : a.permute(order_)).contiguous(); }
  Array restore(const Array& a) const { return is_identity_ ? a : a.permute(inverse()); }
  // Returns whether `a`, whose dimensions are those of that array, is dense in this order.
  bool fits(const Array& a) const { return (is_identity_ ? a : a.permute(order_)).is_contiguous(); }
  // `a` itself where it fits, else a copy that does.
  Array arranged(const Array& a) const {
    if (fits(a)) return a;
    Array copy = empty(a.shape(), a.dtype(), a.device());
    copy.copy_from(a);
    return copy;
  }
  // Uninitialised memory of the given shape, dense in this order.
  Array empty(const Shape& shape, DType dtype, Device device) const {
    return restore(Array::empty(permuted(shape), dtype, device));
  }
  // An array of the given shape over the beginning of `storage`, dense in this order.
  Array over(std::shared_ptr<Storage> storage, const Shape& shape, DType dtype) const {
    const Shape sizes = permuted(shape);
    return restore(Array(std::move(storage), sizes, contiguous_strides(sizes), 0, dtype));
  }
  // The position of dimension `dim` in this order.
  int position(int dim) const { return static_cast<int>(inverse()[dim]); }
  // The order of the dimensions that are left without `dim`.
  MemoryOrder without(int dim) const {
    MemoryOrder rest = *this;
    rest.order_ = {};
    for (const auto d : order_)
      if (d != dim) rest.order_.push_back(d < dim ? d : d - 1);
    return rest;
  }

 private:
  Shape permuted(const Shape& shape) const {
    Shape sizes = shape;
    for (int i = 0; i < shape.ndim(); ++i) sizes[i] = shape[static_cast<int>(order_[i])];
    return sizes;
  }
  Dims inverse() const {
    Dims inverse = order_;
    for (int i = 0; i < order_.ndim(); ++i) inverse[static_cast<int>(order_[i])] = i;
    return inverse;
  }

  Dims order_;
  bool is_identity_ = true;
};

// A view of a row-major array as (before, n, after), where n is the size of dimension `dim`.
inline Array around(const Array& a, int dim) {
  std::int64_t before = 1, after = 1;
  for (int i = 0; i < dim; ++i) before *= a.shape()[i];
  for (int i = dim + 1; i < a.ndim(); ++i) after *= a.shape()[i];
  return a.reshape({before, a.ndim() == 0 ? 1 : a.shape()[dim], after});
}

}  // namespace tandem
