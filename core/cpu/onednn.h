// oneDNN behind a few functions. Only onednn.cpp, onednn_plan.h, onednn_faults.cpp and conv/onednn_conv.cpp use its
// API. The API differs between versions 2 and 3.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::onednn {

// Returns whether oneDNN may use AVX-512 on this processor.
bool has_avx512();
// Returns whether oneDNN's kernels for bf16 are faster than those for f32. Without AVX-512, it has none. Intel's
// processors without AMX multiply bf16 numbers at half the speed of f32 (measured on a Xeon with AVX512_BF16, oneDNN
// 2.6).
bool has_fast_bf16();

// Like MatmulMethod::matmul (core/cpu/matmul_method.h).
bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y);

}  // namespace tandem::onednn
