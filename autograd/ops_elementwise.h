// Element by element. Shapes broadcast, dtypes are promoted.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor affine(const Tensor& x, double scale, double shift);  // x * scale + shift
Tensor neg(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, double number) { return affine(x, 1, number); }
inline Tensor operator-(const Tensor& x, double number) { return affine(x, 1, -number); }
inline Tensor operator*(const Tensor& x, double number) { return affine(x, number, 0); }
inline Tensor operator/(const Tensor& x, double number) { return affine(x, 1 / number, 0); }

}  // namespace tandem
