// Over dimensions: many numbers become one, by a Reduction (core/formulas/reductions.h) or a search; and running sums.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::ops {

// Over `dims` (all when empty). Sums, products and counts of integers and bools are i64; any and all are bool (u8 of
// u8). Error where nothing is reduced to something that has no value for nothing: a maximum, a norm of infinity.
Array reduce(const Reduction& op, const Array& x, const Dims& dims = {}, bool keepdim = false);
// op.derivative(x, y, grad_y) for each element of x (core/formulas/reductions.h); y and grad_y broadcast to x's shape.
Array reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y);
// Sums x to `shape`: the gradient of broadcasting.
Array sum_to(const Array& x, const Shape& shape);

// The largest (smallest) along `dim` and where the first of it is (i64). NaN is the largest and the smallest.
struct Found {
  Array values, indices;
};
Found search(bool largest, const Array& x, std::int64_t dim, bool keepdim = false);
// The position alone, without `dim` in x read row by row.
Array argmax(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

// Sums from the beginning of `dim` to each element (reversed: from its end); i64 of integers and bools.
Array cumsum(const Array& x, std::int64_t dim, bool reversed = false);
Array cumprod(const Array& x, std::int64_t dim);  // the same of products

// x's shape with 1 in the dimensions `dims` (all when empty). A scalar has one dimension here. Error names `operation`
// where a dimension does not exist or comes twice.
Shape kept_shape(const Array& x, const Dims& dims, const char* operation);

}  // namespace tandem::ops
