// Element-wise arithmetic on an array and a number, and on two arrays.
#pragma once

#include <tandem/core/formulas/functors/math.h>

namespace tandem {

// Says from which value the derivative of a unary operation is computed.
enum class Saves { nothing, input, output };

namespace functors {

// x * scale + shift. The default shift is -0.0, because adding it does not change the sign of a zero.
struct Affine {
  double scale = 1, shift = -0.0;
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return wrapping_sum(wrapping_product(x, as<T>(scale)), as<T>(shift));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T) const {
    return static_cast<T>(scale);
  }
};

// x / divisor
struct DivideBy {
  double divisor = 1;
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x / as<T>(divisor);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T) const {
    return T(1) / as<T>(divisor);
  }
};

// numerator / x
struct Reciprocal {
  double numerator = 1;
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return as<T>(numerator) / x;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T inverse = T(1) / x;
    return -as<T>(numerator) * inverse * inverse;
  }
};

struct Square {
  static constexpr Saves saves = Saves::input;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return wrapping_product(x, x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return 2 * x;
  }
};

struct Abs {
  static constexpr Saves saves = Saves::input;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    else return is_negative(x) ? wrapping_difference(T(0), x) : x;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(x > T(0)) - T(x < T(0));
  }
};

// -1, 0 or 1; 0 for NaN.
struct Sign {
  static constexpr Saves saves = Saves::nothing;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return static_cast<T>(T(x > T(0)) - T(is_negative(x)));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T) const {
    return T(0);
  }
};

struct Floor {
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::floor(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T) const {
    return T(0);
  }
};

struct Ceil : Floor {
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::ceil(x);
  }
};

struct Trunc : Floor {
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::trunc(x);
  }
};

// Rounds to the nearest whole number, and halves to even.
struct Round : Floor {
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::rint(x);
  }
};

// Clamps x to [low, high]. If low is above high, the result is `high`. An infinite limit has no effect. NaN stays NaN.
struct Clamp {
  double low = -HUGE_VAL, high = HUGE_VAL;
  static constexpr Saves saves = Saves::input;
  static constexpr bool selects = true;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    // The limits may lie outside the range of an integer type T.
    using Limit = std::conditional_t<std::is_integral_v<T>, double, T>;
    const T raised = x < static_cast<Limit>(low) ? as<T>(low) : x;
    return raised > static_cast<Limit>(high) ? as<T>(high) : raised;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const bool above = (x > static_cast<T>(low)) | (low == -HUGE_VAL);
    const bool below = (x < static_cast<T>(high)) | (high == HUGE_VAL);
    return T(above & below);
  }
};

// a + alpha * b
struct Add {
  double alpha = 1;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return wrapping_sum(a, wrapping_product(as<T>(alpha), b));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T, T) const {
    return static_cast<T>(alpha);
  }
};

struct Sub {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return wrapping_difference(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T, T) const {
    return T(-1);
  }
};

struct Mul {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return wrapping_product(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T b) const {
    return b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T) const {
    return a;
  }
};

struct Div {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return T(0);  // integers are divided as floating numbers
    else return a / b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T b) const {
    return T(1) / b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return -(a / b) / b;
  }
};

// The larger of a and b, or NaN if either is NaN. Equal operands share the gradient.
struct Maximum {
  static constexpr bool selects = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return ((a > b) | (a != a)) ? a : b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T a, T b) const {
    return a == b ? T(0.5) : a < b ? T(0) : T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return derivative_a(b, a);
  }
};

struct Minimum {
  static constexpr bool selects = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return ((a < b) | (a != a)) ? a : b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T a, T b) const {
    return a == b ? T(0.5) : a > b ? T(0) : T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return derivative_a(b, a);
  }
};

}  // namespace functors
}  // namespace tandem
