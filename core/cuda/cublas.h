// Matrix products by cuBLASLt. Only cublas.cpp uses cuBLASLt's API.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/math_mode.h>

namespace tandem::cuda {

struct ProductMode {
  bool tf32 = math_mode().tf32_matmul;
  bool adds = false;  // y += a b
};

// The part of y = a b + bias that multiply() has computed.
enum class Product {
  none,  // nothing, because cuBLASLt has no algorithm for these dtypes, shapes and strides
  without_bias,
  whole
};

// y (M, N) = a (M, K) b (K, N) + bias (N) in the current stream, or the same for a batch: all three then have a first
// dimension of at most 65,535. All arrays are on the current GPU, and none is empty. They are of one dtype, but y and
// bias may be f32 if a and b are 16-bit. y's matrices are row-major, and transpose_of (layouts.h) can describe those of
// a and b. bias may be null; otherwise it is dense and aligned to 16 bytes. Sums of 16-bit products stay f32 until the
// end. Returns the part that was computed; the caller must compute the rest. Any thread may call.
Product multiply(const Array& a, const Array& b, const Array* bias, const Array& y, const ProductMode& mode = {});

// The same for two matrices without a bias; row_sums (M) receives the sum of each row of a. It has the dtype and the
// alignment of a bias. Returns false, and does nothing, if cuBLASLt has no algorithm for both.
bool multiply_with_row_sums(const Array& a, const Array& b, const Array& y, const Array& row_sums,
                            const ProductMode& mode = {});

}  // namespace tandem::cuda
