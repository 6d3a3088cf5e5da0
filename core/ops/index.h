// By position. Names and meanings are PyTorch's. Indices are i64 or i32 and count from 0: one that is negative or too
// large is an Error, on a GPU at the next synchronisation, that names where it stands, what it is and what is allowed.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/index_fault.h>

namespace tandem::ops {

// The rows of `rows` (R, ...) that `index` (N) i64 names -> (N, ...), in the layout of `rows`, which is copied where
// its rows are not dense. On the CPU one thread copies: for data loaders, which have threads of their own.
Array gather_rows(const Array& rows, const Array& index);
// The same from u8 to f32: (byte / 255 - mean) / std.
Array gather_normalized(const Array& rows, const Array& index, float mean = 0, float std = 1);

// x without `dim`'s slices but those that `index` (N) names, in its order: `dim` of the result has size N. `of` is who
// asks, for the Error.
Array index_select(const Array& x, std::int64_t dim, const Array& index,
                   IndexFault::Of of = IndexFault::Of::index_select);
// y[i][j][k] = x[i][index[i][j][k]][k], for dim 1. index is nowhere larger than x, except in `dim`; y has its shape.
Array gather(const Array& x, std::int64_t dim, const Array& index);

// target[i][index[i][j][k]][k] = (or +=) source[i][j][k], for dim 1. index is nowhere larger than source, nor than
// target except in `dim`. target and source have one dtype. Which of several writes to one element stays is not said;
// sums are the same each time on the CPU.
void scatter_(Array& target, std::int64_t dim, const Array& index, const Array& source,
              IndexFault::Of of = IndexFault::Of::scatter);
void scatter_add_(Array& target, std::int64_t dim, const Array& index, const Array& source);
// The slice index[j] of target along `dim` += the slice j of source, which has target's shape except that `dim` has the
// size of `index` (N).
void index_add_(Array& target, std::int64_t dim, const Array& index, const Array& source,
                IndexFault::Of of = IndexFault::Of::index_add);

// The shape that x and its `mask` broadcast to. Error when the mask is not bool, or on another device than x.
Shape masked_shape(const Array& x, const Array& mask, const char* operation);
// x with `value` where `mask` (bool) is true, both broadcast.
Array masked_fill(const Array& x, const Array& mask, double value);
// Where x is not zero: (count, ndim) i64, in row-major order. Waits for a GPU, as do the two below.
Array nonzero(const Array& x);
// The same of x as one long row: (count).
Array flat_nonzero(const Array& x);
// (...) i64 or i32 -> (..., num_classes) i64, 1 at each index and 0 elsewhere. num_classes -1: the largest index + 1.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

}  // namespace tandem::ops
