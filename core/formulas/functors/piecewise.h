// Piecewise linear activations.
#pragma once

#include <tandem/core/formulas/functors/arithmetic.h>

namespace tandem::functors {

// Clamps x to [low, high]. If x is NaN, the gradient passes.
struct Hardtanh : Clamp {
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return ((x <= static_cast<T>(low)) | (x >= static_cast<T>(high))) ? T(0) : T(1);
  }
};

inline Hardtanh hardtanh(double low, double high) { return {{low, high}}; }

// relu6(x + 3) / 6. Howard et al., arXiv:1905.02244.
struct Hardsigmoid {
  static constexpr Saves saves = Saves::input;
  static constexpr bool selects = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T raised = x + T(3) < T(0) ? T(0) : x + T(3), gate = raised > T(6) ? T(6) : raised;
    return gate / T(6);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return ((x > T(-3)) & (x < T(3))) ? T(1) / T(6) : T(0);
  }
};

// x, or `otherwise` where x is not above the threshold.
struct Threshold {
  double threshold = 0, otherwise = 0;
  static constexpr Saves saves = Saves::input;
  static constexpr bool selects = true;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    // The threshold may lie outside the range of an integer type T.
    using Limit = std::conditional_t<std::is_integral_v<T>, double, T>;
    return static_cast<Limit>(x) <= static_cast<Limit>(threshold) ? as<T>(otherwise) : x;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return x <= static_cast<T>(threshold) ? T(0) : T(1);
  }
};

// a, or b * a where a is not positive; b is the weight. He et al., arXiv:1502.01852.
struct Prelu {
  static constexpr bool selects = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return a > T(0) ? a : static_cast<T>(b * a);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T a, T b) const {
    return a > T(0) ? T(1) : b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T) const {
    return a > T(0) ? T(0) : a;
  }
};

// Replaces NaN and the infinities by other numbers. The gradient of a replaced element is 0.
struct NanToNum {
  double nan = 0, positive = 0, negative = 0;
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T finite = x == T(HUGE_VAL) ? as<T>(positive) : x == T(-HUGE_VAL) ? as<T>(negative) : x;
    return x != x ? as<T>(nan) : finite;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T((x < T(HUGE_VAL)) & (x > T(-HUGE_VAL)));
  }
};

}  // namespace tandem::functors
