// MatmulMethod: a library that multiplies matrices of 32-bit and 16-bit numbers. An annex adds one. Without an annex,
// Eigen multiplies them, which is slower.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/base/annex.h>

#include <optional>

namespace tandem::cpu {

// y (rows, columns) = alpha a (rows, inner) b (inner, columns) + beta y. y is row-major, and all matrices are f32.
struct Gemm {
  std::int64_t rows, inner, columns;
  const float* a;
  MatrixLayout a_layout;
  const float* b;
  MatrixLayout b_layout;
  float* y;
  std::int64_t y_leading;
  float alpha = 1, beta = 0;
};

struct MatmulMethod {
  void (*gemm)(const Gemm& g);
  // Returns false without doing anything if the library has no implementation for these dtypes on this processor, or
  // only a slow one. Arguments are as in Backend, and the matrices have a matrix layout (core/array/matrix_layout.h).
  bool (*matmul)(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y);
};

// The first method in the list is used.
inline constinit AnnexList<MatmulMethod> matmul_methods{add_core_annexes};

// Inside a parallel loop, it runs on the calling thread only.
void gemm(const Gemm& g);

}  // namespace tandem::cpu
