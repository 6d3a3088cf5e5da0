// Division rounded to whole numbers, and its remainder. An integer divided by 0 gives 0, and the smallest integer
// divided by -1 wraps around.
#pragma once

#include <tandem/core/formulas/functors/math.h>

namespace tandem::functors {

// a - b * trunc(a / b). The result has the sign of a.
struct Fmod {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return is_zero_or_minus_one(b) ? T(0) : static_cast<T>(a % b);
    else return math::fmod(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return -math::trunc(a / b);
  }

  template <class T>
  TANDEM_HOST_DEVICE static bool is_zero_or_minus_one(T b) {
    return b == T(0) || (std::is_signed_v<T> && b == static_cast<T>(-1));
  }
};

// a - b * floor(a / b). The result has the sign of b.
struct Remainder {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    const T rest = Fmod{}.value(a, b);
    return rest != T(0) && is_negative(rest) != is_negative(b) ? static_cast<T>(rest + b) : rest;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return -math::floor(a / b);
  }
};

// floor(a / b) of the exact quotient, not of the rounded quotient. The gradient is 0.
struct FloorDivide {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T(0)) return T(0);
      if (Fmod::is_zero_or_minus_one(b)) return wrapping_difference(T(0), a);
      const T quotient = static_cast<T>(a / b);
      return a % b != T(0) && is_negative(a) != is_negative(b) ? static_cast<T>(quotient - T(1)) : quotient;
    } else {
      if (b == T(0)) return a / b;
      const T rest = Fmod{}.value(a, b), truncated = (a - rest) / b;
      const bool is_above = rest != T(0) && is_negative(rest) != is_negative(b);
      const T quotient = is_above ? truncated - T(1) : truncated, floor = math::floor(quotient);
      // `quotient` is a whole number, up to rounding.
      const T nearest = quotient - floor > T(0.5) ? floor + T(1) : floor;
      return quotient == T(0) ? T(0) * (a / b) : nearest;
    }
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(0);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T, T) const {
    return T(0);
  }
};

}  // namespace tandem::functors
