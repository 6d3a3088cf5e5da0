// The element-wise operations: one struct each, value and derivative side by side, compiled for every device.
//
// A unary struct has value(x) and derivative(s), where s is what `saves` names: the input x or the output y, whichever
// gives the cheaper formula. A binary struct has value(a, b) and the derivatives with respect to a and to b.
// T is the type computed in: float for f32, bf16 and f16; double for f64; the integer itself.
// To add one: write the struct, name it in the variant below, give it a line in autograd/ops_elementwise.h and a row in
// the table of tests.
#pragma once

#include <tandem/core/half.h>

#include <cmath>
#include <variant>

namespace tandem {

enum class Saves { nothing, input, output };

namespace functors {

// x * scale + shift: arithmetic with a number.
struct Affine {
  double scale = 1, shift = 0;
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x * static_cast<T>(scale) + static_cast<T>(shift);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T) const {
    return static_cast<T>(scale);
  }
};

struct Relu {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x < T(0) ? T(0) : x;
  }  // keeps NaN
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y > T(0) ? T(1) : T(0);
  }
};

struct Exp {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return std::exp(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y;
  }
};

struct Log {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return std::log(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / x;
  }
};

struct Sqrt {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(0.5) / y;
  }
};

struct Sigmoid {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y * (T(1) - y);
  }
};

struct Tanh {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return std::tanh(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(1) - y * y;
  }
};

struct Add {
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return a + b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T) const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T, T) const {
    return T(1);
  }
};

struct Sub {
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return a - b;
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
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return a * b;
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
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    return a / b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T b) const {
    return T(1) / b;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    return -a / (b * b);
  }
};

// Comparisons give bool and have no derivative.
struct Equal {
  template <class T>
  TANDEM_HOST_DEVICE bool value(T a, T b) const {
    return a == b;
  }
};

}  // namespace functors

using UnaryOp = std::variant<functors::Affine, functors::Relu, functors::Exp, functors::Log, functors::Sqrt,
                             functors::Sigmoid, functors::Tanh>;
using BinaryOp = std::variant<functors::Add, functors::Sub, functors::Mul, functors::Div>;
using CompareOp = std::variant<functors::Equal>;

}  // namespace tandem
