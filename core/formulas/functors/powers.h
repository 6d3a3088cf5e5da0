// Powers, roots, exponentials and logarithms, and functions based on them.
#pragma once

#include <tandem/core/formulas/functors/arithmetic.h>

#include <cstdint>

namespace tandem::functors {

// Returns x to the power of n for integers, with wrap-around. For a negative exponent, returns 1 / x^-n, truncated.
template <class T>
TANDEM_HOST_DEVICE T integer_power(T x, T n) {
  if (is_negative(n)) return x == T(1) ? T(1) : x == static_cast<T>(-1) ? (n % 2 == 0 ? T(1) : x) : T(0);
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(x);
  for (auto rest = static_cast<std::uint64_t>(n); rest > 0; rest >>= 1) {
    if (rest & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

// x to the power of a number
struct Power {
  double exponent = 1;
  static constexpr Saves saves = Saves::input;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    if constexpr (std::is_integral_v<T>) return integer_power(x, as<T>(exponent));
    else return math::pow(x, as<T>(exponent));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T slope = as<T>(exponent) * math::pow(x, as<T>(exponent - 1));
    return exponent == 0 ? T(0) : slope;
  }
};

struct Cube {
  static constexpr Saves saves = Saves::input;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return wrapping_product(wrapping_product(x, x), x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return 3 * x * x;
  }
};

// A number to the power of x
struct Exponential {
  double base = 1;
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::pow(as<T>(base), x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    // 0 to the power of x is 1 at x = 0, 0 above it and infinite below it.
    const T slope = y * math::log(as<T>(base));
    return ((base == 0) & (y <= T(1))) ? T(0) : slope;
  }
};

// a to the power of b
struct Pow {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return integer_power(a, b);
    else return math::pow(a, b);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T a, T b) const {
    const T slope = b * math::pow(a, b - T(1));
    return b == T(0) ? T(0) : slope;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    const T slope = math::pow(a, b) * math::log(a);
    return ((a == T(0)) & (b >= T(0))) ? T(0) : slope;
  }
};

struct Exp {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::exp(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y;
  }
};

// exp(x) - 1
struct Expm1 {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::expm1(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y + T(1);
  }
};

// 2 to the power of x
struct Exp2 {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::exp2(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y * T(0.69314718055994530942);  // log(2)
  }
};

struct Log {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::log(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / x;
  }
};

// log(1 + x)
struct Log1p {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::log1p(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / (x + T(1));
  }
};

struct Log2 {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::log2(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / (x * T(0.69314718055994530942));  // log(2)
  }
};

struct Log10 {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::log10(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / (x * T(2.30258509299404568402));  // log(10)
  }
};

struct Sqrt {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::sqrt(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(0.5) / y;
  }
};

// 1 / sqrt(x)
struct Rsqrt {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return T(1) / math::sqrt(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(-0.5) * y * y * y;
  }
};

struct Sin {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::sin(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return math::cos(x);
  }
};

struct Cos {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::cos(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return -math::sin(x);
  }
};

// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
struct Erf {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return math::erf(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1.12837916709551257390) * math::exp(-x * x);
  }
};

}  // namespace tandem::functors
