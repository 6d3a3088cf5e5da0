// Linear algebra.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

// a (M, K) b (K, N) [+ bias (N)] -> (M, N), in a's dtype.
Array matmul(const Array& a, const Array& b, const std::optional<Array>& bias = std::nullopt);

}  // namespace tandem::ops
