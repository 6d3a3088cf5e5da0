// The memory layout of the matrices in the last two dimensions of an Array, as BLAS libraries expect it.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem {

// Describes a matrix that is row-major, or the transpose of a row-major matrix. A dense run is a row of that row-major
// matrix; `leading` is the number of elements from the beginning of one run to the beginning of the next.
struct MatrixLayout {
  bool transposed;
  std::int64_t leading;
};

// Returns the layout of the matrices of m, or nullopt if neither of the last two dimensions has stride 1, or if the
// dense runs overlap. A BLAS library can't read such matrices, so they must be copied first.
inline std::optional<MatrixLayout> matrix_layout(const Array& m) {
  const std::int64_t rows = m.shape()[-2], columns = m.shape()[-1];
  // Nothing uses the stride of a dimension of size 1, so any value may stand for it.
  const std::int64_t to_next_row = rows == 1 ? columns : m.strides()[-2];
  const std::int64_t to_next_column = columns == 1 ? rows : m.strides()[-1];
  if ((columns == 1 || to_next_column == 1) && to_next_row >= columns) return MatrixLayout{false, to_next_row};
  if ((rows == 1 || to_next_row == 1) && to_next_column >= rows) return MatrixLayout{true, to_next_column};
  return std::nullopt;
}

// Returns m (M, N) or (B, M, N) in a form that has a matrix layout: m itself or a copy. If the batch repeats the same
// matrix, only that matrix is copied.
inline Array with_matrix_layout(const Array& m) {
  if (matrix_layout(m)) return m;
  const bool repeats = m.ndim() == 3 && m.strides()[0] == 0;
  return repeats ? m.select(0, 0).contiguous().unsqueeze(0).expand(m.shape()) : m.contiguous();
}

}  // namespace tandem
