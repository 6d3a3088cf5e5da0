// oneDNN behind a few functions. Its API, whose versions 2 and 3 differ, is known to onednn.cpp, onednn_plan.h and
// conv/onednn_conv.cpp alone.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/device/backend.h>

namespace tandem::onednn {

// y (rows, columns) = alpha a (rows, inner) b (inner, columns) + beta y, with y row-major and all of f32. Inside of a
// parallel loop it runs on the calling thread alone.
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
void gemm(const Gemm& g);

// Whether oneDNN may use AVX-512 on this processor.
bool has_avx512();
// Whether its kernels for bf16 are faster than those for f32. There are none without AVX-512. Intel's processors
// without AMX multiply numbers of bf16 at half the speed of f32 (measured on a Xeon with AVX512_BF16, oneDNN 2.6).
bool has_fast_bf16();

// Returns false, and has done nothing, when oneDNN has no implementation for these dtypes on this processor, or a slow
// one. Arguments are as in Backend, and the matrices have a matrix layout (core/array/matrix_layout.h).
bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y);

}  // namespace tandem::onednn
