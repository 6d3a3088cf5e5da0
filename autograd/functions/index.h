// Indexing operations. Names and semantics are PyTorch's. Indices are Arrays of i64 or i32 that count from 0. An index
// that is negative or too large is an Error, which gives the position of the index. On a GPU the Error is thrown at the
// next synchronisation.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

// The slices of x along `dim` that `index` (N) names, in the order of `index`. In the result, `dim` has size N.
Tensor index_select(const Tensor& x, std::int64_t dim, const Array& index);
// y[i][j][k] = x[i][index[i][j][k]][k], for dim 1. index is no larger than x in any dimension except `dim`. y has the
// shape of index.
Tensor gather(const Tensor& x, std::int64_t dim, const Array& index);
// Like gather(), but x and index broadcast in all dimensions except `dim`. Without `dim`, x is flattened and index has
// one dimension.
Tensor take_along_dim(const Tensor& x, const Array& index, std::int64_t dim);
Tensor take_along_dim(const Tensor& x, const Array& index);

// Returns a copy of x with y[i][index[i][j][k]][k] = (or +=) source[i][j][k], for dim 1. index is no larger than source
// in any dimension, and no larger than x in any dimension except `dim`. x and source have the same dtype. If scatter()
// writes several values to one element, any one of them may remain. On the CPU, the sums of scatter_add() are the same
// each time.
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, Number value);
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
// Returns a copy of x in which alpha times slice j of source is added to slice index[j] along `dim`. source has x's
// shape, except that `dim` has the size of `index` (N).
Tensor index_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source, double alpha = 1);

// Returns x with `value` at the positions where `mask` (bool) is true. x and mask broadcast.
Tensor masked_fill(const Tensor& x, const Array& mask, Number value);
// Returns the elements of x where `mask` (bool) is true, as a vector. x and mask broadcast. masked_select(), nonzero(),
// and one_hot() with num_classes -1 wait for a GPU.
Tensor masked_select(const Tensor& x, const Array& mask);
// The positions (count, ndim) i64 where x is not zero, in row-major order.
Array nonzero(const Array& x);
// index (...) -> (..., num_classes) i64: 1 at each index and 0 elsewhere. num_classes -1 means the largest index + 1.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

// The rows of weight (V, D) that `index` (...) names -> (..., D). The row padding_idx gets no gradient. A negative
// padding_idx counts from the end.
Tensor embedding(const Array& index, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

}  // namespace tandem
