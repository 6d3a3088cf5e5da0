// By position. Names and meanings are PyTorch's. Indices are Arrays of i64 or i32 that count from 0; one that is
// negative or too large is an Error, on a GPU at the next synchronisation, that says where it stands.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

// The slices of x along `dim` that `index` (N) names, in its order: `dim` of the result has size N.
Tensor index_select(const Tensor& x, std::int64_t dim, const Array& index);
// y[i][j][k] = x[i][index[i][j][k]][k], for dim 1. index is nowhere larger than x, except in `dim`; y has its shape.
Tensor gather(const Tensor& x, std::int64_t dim, const Array& index);
// The same; x and index broadcast in all other dimensions. Without dim: from x as one long row, for an index of one
// dimension.
Tensor take_along_dim(const Tensor& x, const Array& index, std::int64_t dim);
Tensor take_along_dim(const Tensor& x, const Array& index);

// A copy of x with y[i][index[i][j][k]][k] = (or +=) source[i][j][k], for dim 1. index is nowhere larger than source,
// nor than x except in `dim`. x and source have one dtype. Where several are written to one element, which one stays is
// not said; sums are the same each time on the CPU.
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
Tensor scatter(const Tensor& x, std::int64_t dim, const Array& index, double value);
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source);
// A copy of x whose slice index[j] along `dim` has alpha times slice j of source added. source has x's shape except
// that `dim` has the size of `index` (N).
Tensor index_add(const Tensor& x, std::int64_t dim, const Array& index, const Tensor& source, double alpha = 1);

// x with `value` where `mask` (bool) is true; they broadcast.
Tensor masked_fill(const Tensor& x, const Array& mask, double value);
// The elements of x where `mask` (bool) is true, as one row; they broadcast. Waits for a GPU, as do nonzero and
// one_hot(-1).
Tensor masked_select(const Tensor& x, const Array& mask);
// Where x is not zero: (count, ndim) i64, row-major.
Array nonzero(const Array& x);
// (...) -> (..., num_classes) i64, 1 at each index and 0 elsewhere. num_classes -1: the largest index + 1.
Array one_hot(const Array& index, std::int64_t num_classes = -1);

// The rows of weight (V, D) that `index` (...) names -> (..., D). The row padding_idx (from the end where negative)
// gets no gradient.
Tensor embedding(const Array& index, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

}  // namespace tandem
