// Operations that select elements by position. Names and meanings are PyTorch's. Indices are i64 or i32 and count from
// 0. If an index is negative or too large, an Error is thrown that names its position, its value and the valid range.
// On a GPU, the next synchronisation throws it.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/index_fault.h>

namespace tandem::ops {

// Returns the slices of x along `dim` that `index` (N) selects, in the order of `index`: dimension `dim` of the result
// has size N. `operation` names the caller in the Error. The text must live as long as the program, like a literal.
Array index_select(const Array& x, std::int64_t dim, const Array& index, const char* operation = "index_select");
// For dim 1: y[i][j][k] = x[i][index[i][j][k]][k]. In each dimension except `dim`, index is at most as large as x. y
// has the shape of index.
Array gather(const Array& x, std::int64_t dim, const Array& index);

// For dim 1: target[i][index[i][j][k]][k] = (scatter_add_: +=) source[i][j][k]. In each dimension, index is at most as
// large as source, and except in `dim` at most as large as target. target and source have the same dtype. If scatter_
// writes an element several times, it is undefined which value remains. On the CPU, sums are the same in each run.
void scatter_(Array& target, std::int64_t dim, const Array& index, const Array& source,
              const char* operation = "scatter");
void scatter_add_(Array& target, std::int64_t dim, const Array& index, const Array& source);
// For each j: adds slice j of source to slice index[j] of target along `dim`. source has target's shape, except that
// its `dim` has the size of `index` (N).
void index_add_(Array& target, std::int64_t dim, const Array& index, const Array& source,
                const char* operation = "index_add");

// Returns the shape to which x and its `mask` broadcast. Throws an Error if the mask is not bool, or on another device
// than x.
Shape masked_shape(const Array& x, const Array& mask, const char* operation);
// Returns x, with `value` at each position at which `mask` (bool) is true. x and mask broadcast.
Array masked_fill(const Array& x, const Array& mask, Number value);
// Returns the positions at which x is not zero: (count, ndim) i64, in row-major order. This function and the two below
// wait for a GPU to finish, because the size of the result depends on values.
Array nonzero(const Array& x);
// Like nonzero(), for x flattened to one row: (count).
Array flat_nonzero(const Array& x);
// index (...) i64 or i32 -> (..., num_classes) i64, with 1 at each index and 0 elsewhere. If num_classes is -1, the
// largest index + 1 is used.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

}  // namespace tandem::ops
