// Products of matrices, single or batched, and their gradients.
#pragma once

#include <tandem/core/array/array.h>

#include <optional>

namespace tandem::ops {

// Like torch.matmul: a (..., M, K) b (..., K, N) [+ bias (N)] -> (..., M, N) in a's dtype. Leading dimensions
// broadcast. A vector a (K) is treated as (1, K) and a vector b (K) as (K, 1); that dimension of size 1 does not appear
// in the result. Views are multiplied without a copy. Floating dtypes; integers only on the CPU.
Array matmul(const Array& a, const Array& b, const std::optional<Array>& bias = std::nullopt);

// The gradients of matmul(a, b) with respect to a and b, summed over the broadcast dimensions.
Array matmul_grad_a(const Array& grad, const Array& b, const Shape& shape_a);
Array matmul_grad_b(const Array& a, const Array& grad, const Shape& shape_b);

}  // namespace tandem::ops
