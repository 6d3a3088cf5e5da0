// Linear algebra.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

Tensor matmul(const Tensor& a, const Tensor& b);  // (M, K) (K, N) -> (M, N)
// x (N, in), weight (out, in), bias (out) or undefined -> (N, out)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace tandem
