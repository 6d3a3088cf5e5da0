// oneDNN behind a few functions. Its API, whose versions 2 and 3 differ, is known to onednn.cpp, onednn_plan.h,
// onednn_faults.cpp and conv/onednn_conv.cpp alone.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::onednn {

// Whether oneDNN may use AVX-512 on this processor.
bool has_avx512();
// Whether its kernels for bf16 are faster than those for f32. There are none without AVX-512. Intel's processors
// without AMX multiply numbers of bf16 at half the speed of f32 (measured on a Xeon with AVX512_BF16, oneDNN 2.6).
bool has_fast_bf16();

// As in MatmulMethod (core/cpu/matmul_method.h).
bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y);

}  // namespace tandem::onednn
