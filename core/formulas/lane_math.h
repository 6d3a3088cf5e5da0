// The arithmetic M in which formulas of whole operations are written: on one number, or on several side by side.
//
// M::C is the type of a number in computations. M::V is M::C or, on the CPU, a vector of several numbers
// (core/cpu/vector_math.h). For vectors, comparisons return masks, and `mask ? a : b` selects lane by lane. Both
// alternatives are therefore always computed.
#pragma once

#include <tandem/core/base/half.h>

#include <cmath>
#include <cstdint>

namespace tandem {

// The arithmetic M on one number at a time.
template <class Number>
struct ScalarMath {
  using C = Number;
  using V = Number;
  static TANDEM_HOST_DEVICE V exp(V x) { return std::exp(x); }
  static TANDEM_HOST_DEVICE V log(V x) { return std::log(x); }
  static TANDEM_HOST_DEVICE V log1p(V x) { return std::log1p(x); }
  static TANDEM_HOST_DEVICE V tanh(V x) { return std::tanh(x); }
  // Load and store n numbers, like the functions of a vector; here n is 1.
  template <class T>
  static TANDEM_HOST_DEVICE V load_some(const T* from, std::int64_t) {
    return static_cast<C>(*from);
  }
  template <class T>
  static TANDEM_HOST_DEVICE void store_some(T* to, V v, std::int64_t) {
    *to = static_cast<T>(v);
  }
};

namespace lanes {

template <class M, class V = typename M::V>
TANDEM_HOST_DEVICE V magnitude(V x) {
  return x < 0 ? -x : x;
}

template <class M, class V = typename M::V>
TANDEM_HOST_DEVICE V sigmoid(V x) {
  const V one = V{} + typename M::C(1), small = M::exp(-magnitude<M>(x));
  return (x < 0 ? small : one) / (one + small);
}

}  // namespace lanes

}  // namespace tandem
