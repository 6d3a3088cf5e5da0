// Trigonometric and hyperbolic functions, except the sine and cosine, which powers.h defines. Angles are in radians.
#pragma once

#include <tandem/core/formulas/functors/arithmetic.h>

namespace tandem::functors {

struct Tan {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::tan(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(1) + y * y;
  }
};

struct Asin {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::asin(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / math::sqrt(T(1) - x * x);
  }
};

struct Acos {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::acos(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(-1) / math::sqrt(T(1) - x * x);
  }
};

struct Atan {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::atan(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / (T(1) + x * x);
  }
};

struct Sinh {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::sinh(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return math::cosh(x);
  }
};

struct Cosh {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::cosh(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return math::sinh(x);
  }
};

// The angle, seen from the origin, of the point with height a and width b.
struct Atan2 {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return T(0);  // integers are converted to f32 first
    else return math::atan2(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T a, T b) const {
    return b * inverse_square(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return -a * inverse_square(a, b);
  }

 private:
  // Returns 1 / (a^2 + b^2), the inverse square of the distance from the origin. Returns 0 at the origin, where the
  // gradient is 0.
  template <class T>
  TANDEM_HOST_DEVICE static T inverse_square(T a, T b) {
    const T square = a * a + b * b, inverse = T(1) / square;
    return square == T(0) ? T(0) : inverse;
  }
};

}  // namespace tandem::functors
