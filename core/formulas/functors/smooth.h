// Smooth activations and gates that activations.h does not define.
#pragma once

#include <tandem/core/formulas/functors/arithmetic.h>

namespace tandem::functors {

// x / (1 + |x|)
struct Softsign {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    return x / (T(1) + std::abs(x));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T inverse = T(1) / (T(1) + std::abs(x));
    return inverse * inverse;
  }
};

// x * tanh(softplus(x)). Misra, arXiv:1908.08681. With e = exp(x) and n = e (e + 2), that tanh is n / (n + 2).
struct Mish {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T e = math::exp(x), n = e * (e + T(2)), below = x * (n / (n + T(2)));
    return x > T(20) ? x : below;
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    const T e = math::exp(x), n = e * (e + T(2)), inverse = T(1) / (n + T(2));
    // The derivative of that tanh is 4 e (e + 1) / (n + 2)^2.
    const T below = n * inverse + x * (T(4) * e * (e + T(1)) * inverse * inverse);
    return x > T(20) ? T(1) : below;
  }
};

// log(sigmoid(x)) without overflow
struct LogSigmoid {
  static constexpr Saves saves = Saves::input;
  template <class T>
  TANDEM_HOST_DEVICE T value(T x) const {
    const T below = x < T(0) ? x : T(0);
    return below - math::log1p(math::exp(-std::abs(x)));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative(T x) const {
    return T(1) / (T(1) + math::exp(x));
  }
};

// a * sigmoid(b). Dauphin et al., arXiv:1612.08083.
struct Glu {
  template <class T>
  TANDEM_HOST_DEVICE T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return T(0);  // floating numbers only
    else return a / (T(1) + math::exp(-b));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_a(T, T b) const {
    return T(1) / (T(1) + math::exp(-b));
  }
  template <class T>
  TANDEM_HOST_DEVICE T derivative_b(T a, T b) const {
    const T s = derivative_a(a, b);
    return a * s * (T(1) - s);
  }
};

}  // namespace tandem::functors
