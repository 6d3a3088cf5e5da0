// Products of matrices, alone or in batches, and their gradients.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::ops {

// As torch.matmul: a (..., M, K) b (..., K, N) [+ bias (N)] -> (..., M, N) in a's dtype. Leading dimensions broadcast.
// A vector a (K) stands for (1, K) and a vector b (K) for (K, 1); that dimension of size 1 does not appear in the
// result. Views are multiplied as they lie in memory. Floating dtypes; integers on the CPU only.
Array matmul(const Array& a, const Array& b, const std::optional<Array>& bias = std::nullopt);

// The gradients of matmul(a, b) with respect to a and to b, summed over the dimensions that were broadcast.
Array matmul_grad_a(const Array& grad, const Array& b, const Shape& shape_a);
Array matmul_grad_b(const Array& a, const Array& grad, const Shape& shape_b);

}  // namespace tandem::ops
