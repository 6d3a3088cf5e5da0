// cuBLASLt behind one function: the only place that knows its API.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::cuda {

// y (M, N) = a (M, K) b (K, N) + bias (N), in the current stream, or the same for a batch: a first dimension of at most
// 65,535 of all three. All on the current GPU and of one dtype; nothing is empty; y's matrices row-major, a and b such
// that transpose_of (layouts.h) describes them; bias, which may be null, dense and aligned to 16 bytes. Sums of 16-bit
// products are f32 until the end. Returns false when cuBLAS left it to the caller to add the bias. Any thread may call.
bool multiply(const Array& a, const Array& b, const Array* bias, const Array& y);

}  // namespace tandem::cuda
