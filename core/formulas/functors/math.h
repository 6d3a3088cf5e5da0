// The mathematical functions that element-wise operations use, for every device.
//
// On x86-64, glibc has versions of its functions that compute a whole vector at once (libmvec, within 4 units in the
// last place). The declarations below tell the compiler about these versions, so it can use them in loops. The
// functions are declared constant, because no code here reads errno.
#pragma once

#include <tandem/core/base/half.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__GLIBC__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#if __GLIBC_PREREQ(2, 35)
#define TANDEM_VECTOR_MATH(function)                                                        \
  extern "C" __attribute__((simd("notinbranch"), const)) float function##f(float) noexcept; \
  extern "C" __attribute__((simd("notinbranch"), const)) double function(double) noexcept;
TANDEM_VECTOR_MATH(exp)
TANDEM_VECTOR_MATH(expm1)
TANDEM_VECTOR_MATH(log)
TANDEM_VECTOR_MATH(log1p)
TANDEM_VECTOR_MATH(sin)
TANDEM_VECTOR_MATH(cos)
TANDEM_VECTOR_MATH(tanh)
TANDEM_VECTOR_MATH(erf)
TANDEM_VECTOR_MATH(tan)
TANDEM_VECTOR_MATH(asin)
TANDEM_VECTOR_MATH(acos)
TANDEM_VECTOR_MATH(atan)
TANDEM_VECTOR_MATH(sinh)
TANDEM_VECTOR_MATH(cosh)
TANDEM_VECTOR_MATH(exp2)
TANDEM_VECTOR_MATH(log2)
TANDEM_VECTOR_MATH(log10)
#undef TANDEM_VECTOR_MATH
#define TANDEM_VECTOR_MATH(function)                                                               \
  extern "C" __attribute__((simd("notinbranch"), const)) float function##f(float, float) noexcept; \
  extern "C" __attribute__((simd("notinbranch"), const)) double function(double, double) noexcept;
TANDEM_VECTOR_MATH(pow)
TANDEM_VECTOR_MATH(atan2)
#undef TANDEM_VECTOR_MATH
#endif
#endif

namespace tandem {

// Integers wrap around, as in PyTorch. C++ defines that only for unsigned types of at least 32 bits.
template <class T>
using wrapping_t = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
TANDEM_HOST_DEVICE T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapping_t<T>(a) + wrapping_t<T>(b));
  else return a + b;
}
template <class T>
TANDEM_HOST_DEVICE T wrapping_difference(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapping_t<T>(a) - wrapping_t<T>(b));
  else return a - b;
}
template <class T>
TANDEM_HOST_DEVICE T wrapping_product(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapping_t<T>(a) * wrapping_t<T>(b));
  else return a * b;
}

namespace functors {

#define TANDEM_MATH(function)                                        \
  template <class T>                                                 \
  TANDEM_HOST_DEVICE T function(T x) {                               \
    if constexpr (std::is_same_v<T, float>) return ::function##f(x); \
    else return ::function(x);                                       \
  }
namespace math {
TANDEM_MATH(exp)
TANDEM_MATH(expm1)
TANDEM_MATH(log)
TANDEM_MATH(log1p)
TANDEM_MATH(sin)
TANDEM_MATH(cos)
TANDEM_MATH(tanh)
TANDEM_MATH(tan)
TANDEM_MATH(asin)
TANDEM_MATH(acos)
TANDEM_MATH(atan)
TANDEM_MATH(sinh)
TANDEM_MATH(cosh)
TANDEM_MATH(exp2)
TANDEM_MATH(log2)
TANDEM_MATH(log10)
TANDEM_MATH(sqrt)
TANDEM_MATH(floor)
TANDEM_MATH(ceil)
TANDEM_MATH(trunc)
TANDEM_MATH(rint)
#undef TANDEM_MATH
#define TANDEM_MATH(function)                                           \
  template <class T>                                                    \
  TANDEM_HOST_DEVICE T function(T x, T y) {                             \
    if constexpr (std::is_same_v<T, float>) return ::function##f(x, y); \
    else return ::function(x, y);                                       \
  }
TANDEM_MATH(pow)
TANDEM_MATH(atan2)
// Returns the remainder of x / y. For float it is computed in double. That is exact if the quotient has no more than 29
// bits, and several times as fast as the library's function.
template <class T>
TANDEM_HOST_DEVICE T fmod(T x, T y) {
  if constexpr (!std::is_same_v<T, float>) return ::fmod(x, y);
  else {
    const double a = x, b = y, quotient = ::trunc(a / b);
    if (!(::fabs(quotient) < 536870912.0)) return ::fmodf(x, y);
    double rest = quotient == 0 ? a : a - quotient * b;
    if (rest * a < 0) rest += ::copysign(b, a);  // a / b was rounded up to a whole number
    return static_cast<float>(::copysign(rest, a));
  }
}
// The error function. For float it is x times a quotient of polynomials in x^2, fitted to a relative error of 2e-8 up
// to the point at which the function is 1. The result is within 6 units in the last place and takes half the time of
// the library's function.
template <class T>
TANDEM_HOST_DEVICE inline T erf(T x) {
  if constexpr (!std::is_same_v<T, float>) return ::erf(x);
  else {
    const float size = ::fabsf(x), z = size > 3.93f ? 3.93f : size, u = z * z;
    float p = 2.0419098e-6f * u + 2.8479967e-4f;
    p = p * u + 3.7794841e-3f;
    p = p * u + 5.2789900e-2f;
    p = p * u + 1.9078175e-1f;
    p = p * u + 1.1283791e+0f;
    float q = 3.8002969e-5f * u + 1.1651705e-3f;
    q = q * u + 1.4997199e-2f;
    q = q * u + 1.1425656e-1f;
    q = q * u + 5.0240865e-1f;
    q = q * u + 1.f;
    const float y = z * p / q;
    return ::copysignf(y > 1 ? 1 : y, x);
  }
}
}  // namespace math
#undef TANDEM_MATH

// Returns x < 0. Unsigned types are handled separately, because the comparison would cause a warning.
template <class T>
TANDEM_HOST_DEVICE bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>) return false;
  else return x < T(0);
}

// Converts a number that the caller passed to the type used for computation. Integers wrap around, as in arithmetic.
template <class T>
TANDEM_HOST_DEVICE T as(double number) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<long long>(number));
  else return static_cast<T>(number);
}

}  // namespace functors
}  // namespace tandem
