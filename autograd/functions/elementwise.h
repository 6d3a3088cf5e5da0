// Element-wise operations. Names and semantics are PyTorch's. Shapes broadcast. Dtypes are promoted as in PyTorch: a
// number does not widen a tensor, but a floating number makes integers f32. Operations without a gradient return
// Arrays. The in-place operations are in in_place.h.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/base/number.h>

#include <optional>

namespace tandem {

// Arithmetic. Bools are added with "or" and multiplied with "and". Integers are divided as f32.
Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);  // a + alpha * b
Tensor add(const Tensor& x, Number number);
Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor sub(const Tensor& x, Number number);
Tensor sub(Number number, const Tensor& x);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& x, Number number);
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& x, Number number);
Tensor div(Number number, const Tensor& x);
// The quotient rounded down. Division of integers by 0 is an Error on the CPU and gives 0 on a GPU. The same holds for
// remainder() and fmod().
Array floor_divide(const Tensor& a, const Tensor& b);
Array floor_divide(const Tensor& x, Number number);
// The remainder of a / b. It has the sign of b (remainder) or of a (fmod).
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& x, Number number);
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& x, Number number);
Tensor affine(const Tensor& x, double scale, double shift);  // x * scale + shift
Tensor neg(const Tensor& x);
// Powers of integers wrap around. Throws an Error for integers to the power of a negative number.
Tensor pow(const Tensor& x, Number exponent);
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(Number base, const Tensor& exponent);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);

// The larger or the smaller of two numbers, or NaN if one of them is NaN. Equal numbers share the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
// Limits x to [min, max]. Either limit may be omitted. The gradient passes between the limits, not at them.
Tensor clamp(const Tensor& x, std::optional<Number> min = {}, std::optional<Number> max = {});
// Replaces NaN and the infinities in x. By default the infinities become the largest and the smallest number of the
// dtype.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
// Rounds to whole numbers: down, up, towards 0, or to the nearest (halves to even). The gradient is 0.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);

Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);   // 2 to the power of x
Tensor expm1(const Tensor& x);  // exp(x) - 1
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x)
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  // 1 / sqrt(x)
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor atan2(const Tensor& a, const Tensor& b);  // the angle of the point with y coordinate a and x coordinate b
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor erf(const Tensor& x);

// Activations: core/formulas/functors/activations.h, piecewise.h and smooth.h have the formulas.
enum class Approximate { none, tanh };
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x, Approximate approximate = Approximate::none);
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor hardswish(const Tensor& x);
Tensor hardsigmoid(const Tensor& x);
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
Tensor relu6(const Tensor& x);                                      // limits x to [0, 6]
Tensor threshold(const Tensor& x, double threshold, double value);  // `value` where x <= threshold, and x elsewhere
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, double alpha = 1);
Tensor mish(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
// The first half of x along `dim`, times the sigmoid of the second half. Throws an Error if the size of `dim` is odd.
Tensor glu(const Tensor& x, std::int64_t dim = -1);
// x where it is positive, and weight * x elsewhere: x (N, C, ...), weight (), (1) or (C).
Tensor prelu(const Tensor& x, const Tensor& weight);

// condition (bool) ? a : b. Each element's gradient goes to the operand from which the element was taken.
Tensor where(const Array& condition, const Tensor& a, const Tensor& b);
Tensor where(const Array& condition, const Tensor& a, Number b);
Tensor where(const Array& condition, Number a, const Tensor& b);

Tensor cast(const Tensor& x, DType dtype);

// Comparisons and logical operations return bools. Every nonzero number is true.
Array eq(const Tensor& a, const Tensor& b);
Array ne(const Tensor& a, const Tensor& b);
Array lt(const Tensor& a, const Tensor& b);
Array le(const Tensor& a, const Tensor& b);
Array gt(const Tensor& a, const Tensor& b);
Array ge(const Tensor& a, const Tensor& b);
Array eq(const Tensor& x, Number number);
Array ne(const Tensor& x, Number number);
Array lt(const Tensor& x, Number number);
Array le(const Tensor& x, Number number);
Array gt(const Tensor& x, Number number);
Array ge(const Tensor& x, Number number);
// Comparison operators. They return an array of bools, not a single bool: all(a == b) reduces it to one.
inline Array operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Array operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Array operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Array operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Array operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Array operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Array operator==(const Tensor& x, Number number) { return eq(x, number); }
inline Array operator!=(const Tensor& x, Number number) { return ne(x, number); }
inline Array operator<(const Tensor& x, Number number) { return lt(x, number); }
inline Array operator<=(const Tensor& x, Number number) { return le(x, number); }
inline Array operator>(const Tensor& x, Number number) { return gt(x, number); }
inline Array operator>=(const Tensor& x, Number number) { return ge(x, number); }
inline Array operator==(Number number, const Tensor& x) { return eq(x, number); }
inline Array operator!=(Number number, const Tensor& x) { return ne(x, number); }
inline Array operator<(Number number, const Tensor& x) { return gt(x, number); }
inline Array operator<=(Number number, const Tensor& x) { return ge(x, number); }
inline Array operator>(Number number, const Tensor& x) { return lt(x, number); }
inline Array operator>=(Number number, const Tensor& x) { return le(x, number); }
Array logical_and(const Tensor& a, const Tensor& b);
Array logical_or(const Tensor& a, const Tensor& b);
Array logical_xor(const Tensor& a, const Tensor& b);
Array logical_not(const Tensor& x);
// Logical operators for bools only: (x > 0) & (x < 1). Throws an Error for other dtypes.
Array operator&(const Tensor& a, const Tensor& b);
Array operator|(const Tensor& a, const Tensor& b);
Array operator^(const Tensor& a, const Tensor& b);
Array operator~(const Tensor& x);
Array isnan(const Tensor& x);
Array isinf(const Tensor& x);
Array isfinite(const Tensor& x);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, Number number) { return add(x, number); }
inline Tensor operator-(const Tensor& x, Number number) { return sub(x, number); }
inline Tensor operator*(const Tensor& x, Number number) { return mul(x, number); }
inline Tensor operator/(const Tensor& x, Number number) { return div(x, number); }
inline Tensor operator+(Number number, const Tensor& x) { return add(x, number); }
inline Tensor operator-(Number number, const Tensor& x) { return sub(number, x); }
inline Tensor operator*(Number number, const Tensor& x) { return mul(x, number); }
inline Tensor operator/(Number number, const Tensor& x) { return div(number, x); }

}  // namespace tandem
