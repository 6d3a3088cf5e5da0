// The mathematics that element-wise operations are written in, for every device.
//
// On x86-64, glibc has versions of its functions that compute a whole vector at once (libmvec, within 4 units in the last
// place). Saying that they exist lets the compiler use them in a loop. They are declared constant: nobody here reads errno.
#pragma once

#include <tandem/core/half.h>

#include <cmath>
#include <type_traits>

#if defined(__GLIBC__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__CUDACC__)
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

namespace tandem::functors {

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
TANDEM_MATH(erf)
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
TANDEM_MATH(fmod)
}  // namespace math
#undef TANDEM_MATH

// Spelled out for unsigned types, where a comparison with 0 gets a warning.
template <class T>
TANDEM_HOST_DEVICE bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>) return false;
  else return x < T(0);
}

// A number given by the user, in the type computed in. Integers wrap around, as they do in arithmetic.
template <class T>
TANDEM_HOST_DEVICE T as(double number) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<long long>(number));
  else return static_cast<T>(number);
}

}  // namespace tandem::functors
