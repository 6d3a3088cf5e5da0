// Linear algebra.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

// Matrix product over the last two dimensions: (..., M, K) (..., K, N) -> (..., M, N). Leading dimensions broadcast. A
// vector on the left is a row, a vector on the right is a column, and the result has no dimension for it: (K) (K) ->
// (). Both operands have the same dtype. Integers are multiplied on the CPU only.
Tensor matmul(const Tensor& a, const Tensor& b);
// The same product, restricted to these shapes.
Tensor mm(const Tensor& a, const Tensor& b);     // (M, K) (K, N) -> (M, N)
Tensor bmm(const Tensor& a, const Tensor& b);    // (B, M, K) (B, K, N) -> (B, M, N)
Tensor mv(const Tensor& a, const Tensor& b);     // (M, K) (K) -> (M)
Tensor dot(const Tensor& a, const Tensor& b);    // (K) (K) -> ()
Tensor outer(const Tensor& a, const Tensor& b);  // (M) (N) -> (M, N)
// beta * input + alpha * (a b). input broadcasts to (M, N). If beta is 0, input is not read, so its NaNs don't spread.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

// x weight^T + bias: x (..., in), weight (out, in), bias (out) or undefined -> (..., out)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// y_o is the sum over i and j of a_i weight_oij b_j, plus bias_o: a (..., I), b (..., J), weight (O, I, J), bias (O) or
// undefined -> (..., O)
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

}  // namespace tandem
