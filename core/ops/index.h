// Operations that choose elements by position. Names and meanings are PyTorch's. Indices are i64 or i32 and count from
// 0. An index that is negative or too large is an Error that says where it stands, what it is and what is allowed; on a
// GPU the Error comes with the next synchronisation.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/index_fault.h>

namespace tandem::ops {

// The slices of x along `dim` that `index` (N) names, in the order of `index`: dimension `dim` of the result has size
// N. `operation` names the caller in the Error. It lives as long as the program, as a literal does.
Array index_select(const Array& x, std::int64_t dim, const Array& index, const char* operation = "index_select");
// For dim 1: y[i][j][k] = x[i][index[i][j][k]][k]. index is nowhere larger than x, except in `dim`. y has the shape of
// index.
Array gather(const Array& x, std::int64_t dim, const Array& index);

// For dim 1: target[i][index[i][j][k]][k] = (scatter_add_: +=) source[i][j][k]. index is nowhere larger than source,
// and nowhere larger than target except in `dim`. target and source have one dtype. When several writes meet in one
// element, it is not defined which of them stays. On the CPU sums are the same each time.
void scatter_(Array& target, std::int64_t dim, const Array& index, const Array& source,
              const char* operation = "scatter");
void scatter_add_(Array& target, std::int64_t dim, const Array& index, const Array& source);
// For each j: the slice index[j] of target along `dim` += the slice j of source. source has target's shape, except that
// its `dim` has the size of `index` (N).
void index_add_(Array& target, std::int64_t dim, const Array& index, const Array& source,
                const char* operation = "index_add");

// The shape that x and its `mask` broadcast to. Error when the mask is not bool, or on another device than x.
Shape masked_shape(const Array& x, const Array& mask, const char* operation);
// x, with `value` where `mask` (bool) is true. x and mask broadcast.
Array masked_fill(const Array& x, const Array& mask, Number value);
// The places where x is not zero: (count, ndim) i64, in row-major order. This call, and the two below, wait for a GPU
// to finish, because the size of the result depends on values.
Array nonzero(const Array& x);
// The same for x seen as one long row: (count).
Array flat_nonzero(const Array& x);
// index (...) i64 or i32 -> (..., num_classes) i64, with 1 at each index and 0 elsewhere. When num_classes is -1, it is
// the largest index + 1.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

}  // namespace tandem::ops
