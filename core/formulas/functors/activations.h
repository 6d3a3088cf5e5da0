// Activations: functions that a network applies to each element between its layers.
#pragma once

#include <tandem/core/formulas/functors/arithmetic.h>

namespace tandem::functors {

struct Relu {
  static constexpr Saves saves = Saves::output;
  static constexpr bool selects = true;
  static constexpr bool keeps_integers = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return is_negative(x) ? T(0) : x;
  }  // keeps NaN
  // PyTorch's derivative is "0 where y <= 0", so the gradient passes where y is NaN.
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return y <= T(0) ? T(0) : T(1);
  }
};

// x, or slope * x where x is negative
struct LeakyRelu {
  double slope = 0.01;
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x > T(0) ? x : x * as<T>(slope);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return x > T(0) ? T(1) : as<T>(slope);
  }
};

// scale * x, or scale * alpha * (exp(x * rate) - 1) where x is negative. Clevert et al., arXiv:1511.07289; with a
// scale, Klambauer et al., arXiv:1706.02515; with a rate, Barron, arXiv:1704.07483.
struct Elu {
  double alpha = 1, scale = 1, rate = 1;
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T below = as<T>(alpha * scale) * math::expm1(x * as<T>(rate));
    return x < T(0) ? below : x * as<T>(scale);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T below = as<T>(alpha * scale * rate) * math::exp(x * as<T>(rate));
    return x <= T(0) ? below : as<T>(scale);
  }
};

inline constexpr Elu selu{1.6732632423543772848, 1.0507009873554804934, 1};
inline constexpr Elu celu(double alpha) { return {alpha, 1, 1 / alpha}; }

struct Sigmoid {
  static constexpr Saves saves = Saves::output;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return T(1) / (T(1) + math::exp(-x));
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
    return math::tanh(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T y) const {
    return T(1) - y * y;
  }
};

// x times the probability that a standard normal variable is below x. Hendrycks and Gimpel, arXiv:1606.08415.
struct Gelu {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T chance(T x) const {
    return T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x * chance(x);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T density = T(0.39894228040143267794) * math::exp(T(-0.5) * x * x);
    return chance(x) + x * density;
  }
};

// The approximation of Gelu by tanh, from the same paper.
struct GeluTanh {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return T(0.5) * x * (T(1) + math::tanh(factor<T>() * (x + cubic<T>() * x * x * x)));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T square = x * x, y = math::tanh(factor<T>() * (x + cubic<T>() * square * x));
    return T(0.5) * (T(1) + y) + T(0.5) * x * (T(1) - y * y) * factor<T>() * (T(1) + T(3) * cubic<T>() * square);
  }

 private:
  template <class T>
  TANDEM_HOST_DEVICE static constexpr T factor() {
    return T(0.79788456080286535588);  // sqrt(2 / pi)
  }
  template <class T>
  TANDEM_HOST_DEVICE static constexpr T cubic() {
    return T(0.044715);
  }
};

// x * sigmoid(x), also called swish.
struct Silu {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x / (T(1) + math::exp(-x));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T s = T(1) / (T(1) + math::exp(-x));
    return s * (T(1) + x * (T(1) - s));
  }
};

// log(1 + exp(beta * x)) / beta, or x itself where beta * x is above the threshold.
struct Softplus {
  double beta = 1, threshold = 20;
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T scaled = x * as<T>(beta), curved = math::log1p(math::exp(scaled)) / as<T>(beta);
    return scaled > as<T>(threshold) ? x : curved;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T scaled = x * as<T>(beta), z = math::exp(scaled), slope = z / (z + T(1));
    return scaled > as<T>(threshold) ? T(1) : slope;
  }
};

// x * relu6(x + 3) / 6. Howard et al., arXiv:1905.02244.
struct Hardswish {
  static constexpr Saves saves = Saves::input;
  static constexpr bool selects = true;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T raised = x + T(3) < T(0) ? T(0) : x + T(3), gate = raised > T(6) ? T(6) : raised;
    return x * gate / T(6);
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T inside = x / T(3) + T(0.5);
    return x <= T(-3) ? T(0) : x < T(3) ? inside : T(1);
  }
};

}  // namespace tandem::functors
