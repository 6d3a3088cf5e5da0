// The functions that the element-wise loops of every device call for each element. They compute in compute_t and round
// the result once. core/array/element_dispatch.h selects a function by operation and dtype.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/core/formulas/functors.h>

namespace tandem {

template <class Out>
struct Convert {
  template <class In>
  TANDEM_HOST_DEVICE Out operator()(In x) const {
    return static_cast<Out>(static_cast<compute_t<In>>(x));
  }
};

// Copies bits without interpreting them.
struct Keep {
  template <class Bits>
  TANDEM_HOST_DEVICE Bits operator()(Bits x) const {
    return x;
  }
};

template <class T>
struct Constant {
  T value;
  TANDEM_HOST_DEVICE T operator()() const { return value; }
};

// y = f(x), y = f(a, b)
template <class F, class T>
struct Value {
  // Binary operations support integers. Unary operations support them if they have the flag keeps_integers.
  static constexpr bool takes_integers = keeps_integers<F> || requires(F f) { f.value(0.0, 0.0); };
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T x) const { return static_cast<T>(f.value(static_cast<C>(x))); }
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(f.value(static_cast<C>(a), static_cast<C>(b)));
  }
};

// The chain rule: grad_y * derivative.
template <class F, class C>
TANDEM_HOST_DEVICE C chain(C grad_y, C derivative) {
  if constexpr (selects<F>) return derivative == C(0) ? C(0) : grad_y * derivative;
  else return grad_y * derivative;
}

// Computes grad_x from grad_y and from the value that f saves (functors.h).
template <class F, class T>
struct UnaryGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T saved, T grad_y) const {
    return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative(static_cast<C>(saved))));
  }
};

// Computes the gradient of one operand from a, b and grad_y.
template <class F, class T, int operand>
struct OperandGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T a, T b, T grad_y) const {
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    if constexpr (operand == 0) return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative_a(x, y)));
    else return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative_b(x, y)));
  }
};
template <class F, class T>
using FirstGradient = OperandGradient<F, T, 0>;
template <class F, class T>
using SecondGradient = OperandGradient<F, T, 1>;

template <class F, class T>
struct Comparison {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE bool operator()(T a, T b) const { return f.value(static_cast<C>(a), static_cast<C>(b)); }
};

template <class F, class T>
struct ComparisonWithNumber {
  using C = compute_t<T>;
  F f;
  C number;
  TANDEM_HOST_DEVICE bool operator()(T x) const { return f.value(static_cast<C>(x), number); }
};

// condition ? a : b
struct Choose {
  template <class Bits>
  TANDEM_HOST_DEVICE Bits operator()(bool condition, Bits a, Bits b) const {
    return condition ? a : b;
  }
};

// Computes the gradient of a reduction for one element. Its arguments and result have the type of the elements.
template <class F, class T>
struct ReductionGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T x, T y, T grad) const {
    return static_cast<T>(f.derivative(static_cast<C>(x), static_cast<C>(y), static_cast<C>(grad)));
  }
};

}  // namespace tandem
