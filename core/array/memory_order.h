// MemoryOrder: the order of a dense array's dimensions in memory, for kernels that require arrays without gaps.
#pragma once

#include <tandem/core/array/array.h>

#include <algorithm>
#include <utility>

namespace tandem {

// The constructor derives the order from an array. If the array is dense, the order is that of its strides, from the
// largest to the smallest, for instance for channels last or a transposed array. Otherwise it is the order of its
// dimensions. apply() permutes an array to this order and makes it row-major. This needs no copy if the array is
// already dense in this order. restore() permutes a result back to the array's order of dimensions.
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

  // Returns `a`, permuted to this order and row-major. Its dimensions are those of the array from which this order was
  // derived. Copies if `a` has another order in memory.
  Array apply(const Array& a) const { return (is_identity_ ? a : a.permute(order_)).contiguous(); }
  Array restore(const Array& a) const { return is_identity_ ? a : a.permute(inverse()); }
  // Returns whether `a`, whose dimensions are those of that array, is dense in this order.
  bool fits(const Array& a) const { return (is_identity_ ? a : a.permute(order_)).is_contiguous(); }
  // Returns `a` itself if it is dense in this order, otherwise a copy that is.
  Array arranged(const Array& a) const {
    if (fits(a)) return a;
    Array copy = empty(a.shape(), a.dtype(), a.device());
    copy.copy_from(a);
    return copy;
  }
  // Returns uninitialised memory of the given shape, dense in this order.
  Array empty(const Shape& shape, DType dtype, Device device) const {
    return restore(Array::empty(permuted(shape), dtype, device));
  }
  // Returns an array of the given shape, dense in this order, at the beginning of `storage`.
  Array over(std::shared_ptr<Storage> storage, const Shape& shape, DType dtype) const {
    const Shape sizes = permuted(shape);
    return restore(Array(std::move(storage), sizes, contiguous_strides(sizes), 0, dtype));
  }
  // Returns the position of dimension `dim` in this order.
  int position(int dim) const { return static_cast<int>(inverse()[dim]); }
  // Returns the order of the remaining dimensions if `dim` is removed.
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

// Returns a row-major array as (before, n, after), where n is the size of dimension `dim`.
inline Array around(const Array& a, int dim) {
  std::int64_t before = 1, after = 1;
  for (int i = 0; i < dim; ++i) before *= a.shape()[i];
  for (int i = dim + 1; i < a.ndim(); ++i) after *= a.shape()[i];
  return a.reshape({before, a.ndim() == 0 ? 1 : a.shape()[dim], after});
}

}  // namespace tandem
