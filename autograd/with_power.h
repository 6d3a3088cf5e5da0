// Selects the operation that raises to a power, for pow and pow_.
#pragma once

#include <tandem/core/formulas/functors.h>

namespace tandem::autograd {

// Calls f with the operation that raises x to the power of `exponent`. Some exponents have an operation that is cheaper
// than the general one.
template <class F>
decltype(auto) with_power(double exponent, bool is_floating, F f) {
  if (exponent == 2) return f(functors::Square{});
  if (exponent == 3) return f(functors::Cube{});
  if (is_floating && exponent == 0.5) return f(functors::Sqrt{});
  if (is_floating && exponent == -0.5) return f(functors::Rsqrt{});
  if (is_floating && exponent == -1) return f(functors::Reciprocal{});
  return f(functors::Power{exponent});
}

}  // namespace tandem::autograd
