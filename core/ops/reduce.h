// Operations over dimensions: reductions and searches turn many numbers into one (core/formulas/reductions.h), and
// running sums.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/formulas/scans.h>

#include <optional>

namespace tandem::ops {

// Reduces x over `dims`, or over all dimensions when `dims` is empty. Sums, products and counts of integers and bools
// are i64. any and all are bool (u8 for u8). Error when nothing is reduced by an operation that has no value for
// nothing, such as a maximum or a norm of infinity.
Array reduce(const Reduction& op, const Array& x, const Dims& dims = {}, bool keepdim = false);
// op.derivative(x, y, grad_y) for each element of x (core/formulas/reductions.h). y and grad_y broadcast to x's shape.
Array reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y);
// Sums x to `shape`: the gradient of broadcasting.
Array sum_to(const Array& x, const Shape& shape);

// The largest (or smallest) number along `dim`, and the first position of it (i64). A NaN counts both as the largest
// and as the smallest.
struct Found {
  Array values, indices;
};
Found search(bool largest, const Array& x, std::int64_t dim, bool keepdim = false);
// The position alone. Without `dim` it is the position in x read row by row.
Array argmax(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

// The sum from the beginning of `dim` to each element, or from the end of `dim` where `reversed`. For integers and
// bools it is i64.
Array cumsum(const Array& x, std::int64_t dim, bool reversed = false);
Array cumprod(const Array& x, std::int64_t dim);  // the same for products

// x's shape with size 1 in the dimensions `dims`, or in all of them when `dims` is empty. A scalar may be addressed as
// if it had one dimension. The Error names `operation` when a dimension does not exist or comes twice.
Shape kept_shape(const Array& x, const Dims& dims, const char* operation);
// An Array of that shape without the dimensions of size 1: what a reduction gives without keepdim.
Array without_reduced(const Array& kept, const Dims& dims);

}  // namespace tandem::ops
