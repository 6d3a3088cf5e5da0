// Operations by position. Names and meanings are PyTorch's. Indices are Arrays of i64 or i32 that count from 0. An
// index that is negative or too large is an Error, which says where the index stands. On a GPU the Error comes at the
// next synchronisation.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

// The slices of x along `dim` that `index` (N) names, in its order: `dim` of the result has size N.
Tensor index_select(const Tensor& x, std::int64_t dim, const Array& index);
// y[i][j][k] = x[i][index[i][j][k]][k], for dim 1. index is nowhere larger than x, except in `dim`. y has the shape of
// index.
Tensor gather(const Tensor& x, std::int64_t dim, const Array& index);
// As gather(), but x and index broadcast in all dimensions other than `dim`. Without `dim` x counts as one long row,
// and index has one dimension.
Tensor take_along_dim(const Tensor& x, const Array& index, std::int64_t dim);
Tensor take_along_dim(const Tensor& x, const Array& index);

// A copy of x with y[i][index[i][j][k]][k] = (or +=) source[i][j][k], for dim 1. index is nowhere larger than source,
// nor than x except in `dim`. x and source have one dtype. If several values are written to one element, any one of
// them may remain. Sums are the same each time on the CPU.
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, Number value);
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
// A copy of x whose slice index[j] along `dim` has alpha times slice j of source added. source has x's shape except
// that `dim` has the size of `index` (N).
Tensor index_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source, double alpha = 1);

// x with `value` where `mask` (bool) is true. x and mask broadcast.
Tensor masked_fill(const Tensor& x, const Array& mask, Number value);
// The elements of x where `mask` (bool) is true, as one row. x and mask broadcast. masked_select(), nonzero() and
// one_hot() with num_classes -1 wait for a GPU.
Tensor masked_select(const Tensor& x, const Array& mask);
// The positions (count, ndim) i64 where x is not zero, in row-major order.
Array nonzero(const Array& x);
// index (...) -> (..., num_classes) i64: 1 at each index and 0 elsewhere. num_classes -1 means the largest index + 1.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

// The rows of weight (V, D) that `index` (...) names -> (..., D). The row padding_idx gets no gradient; a negative
// padding_idx counts from the end.
Tensor embedding(const Array& index, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

}  // namespace tandem
