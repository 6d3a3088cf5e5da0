// Operations over dimensions: running sums, and reductions and searches, which turn many numbers into one
// (core/formulas/reductions.h).
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/formulas/scans.h>

#include <optional>

namespace tandem::ops {

// Reduces x over `dims`, or over all dimensions if `dims` is empty. Sums, products and counts of integers and bools are
// i64. any and all are bool (u8 for u8). Throws an Error if there are no elements to reduce and the operation has no
// value for that case, such as a maximum or a norm of order infinity.
Array reduce(const Reduction& op, const Array& x, const Dims& dims = {}, bool keepdim = false);
// Computes op.derivative(x, y, grad_y) for each element of x (core/formulas/reductions.h). y and grad_y broadcast to
// x's shape.
Array reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y);
// Sums x to `shape`. This is the gradient of broadcasting.
Array sum_to(const Array& x, const Shape& shape);

// The largest (or smallest) number along `dim`, and its first position (i64). A NaN counts as the largest and also as
// the smallest number.
struct Found {
  Array values, indices;
};
Found search(bool largest, const Array& x, std::int64_t dim, bool keepdim = false);
// Return only the position. Without `dim`, it is the position in x flattened in row-major order.
Array argmax(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Array& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

// Returns the sum from the beginning of `dim` up to each element, or from the end of `dim` if `reversed`. For integers
// and bools it is i64.
Array cumsum(const Array& x, std::int64_t dim, bool reversed = false);
Array cumprod(const Array& x, std::int64_t dim);  // the same for products

// Returns x's shape with size 1 in the dimensions `dims`, or in all dimensions if `dims` is empty. A scalar may be
// addressed like an array with one dimension. If a dimension does not exist or occurs twice, throws an Error that names
// `operation`.
Shape kept_shape(const Array& x, const Dims& dims, const char* operation);
// Returns an Array of that shape without the reduced dimensions, like a reduction without keepdim.
Array without_reduced(const Array& kept, const Dims& dims);

}  // namespace tandem::ops
