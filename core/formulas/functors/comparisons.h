// Comparisons and logic of two numbers. They return bool and have no derivative.
#pragma once

#include <tandem/core/formulas/functors/math.h>

namespace tandem::functors {

#define TANDEM_COMPARISON(Name, expression)         \
  struct Name {                                     \
    template <class T>                              \
    TANDEM_HOST_DEVICE bool value(T a, T b) const { \
      return expression;                            \
    }                                               \
  };
TANDEM_COMPARISON(Equal, a == b)
TANDEM_COMPARISON(NotEqual, a != b)
TANDEM_COMPARISON(Less, a < b)
TANDEM_COMPARISON(LessEqual, a <= b)
TANDEM_COMPARISON(Greater, a > b)
TANDEM_COMPARISON(GreaterEqual, a >= b)
// In logic, every number except 0 is true.
TANDEM_COMPARISON(And, (a != T(0)) & (b != T(0)))
TANDEM_COMPARISON(Or, (a != T(0)) | (b != T(0)))
TANDEM_COMPARISON(Xor, (a != T(0)) != (b != T(0)))
#undef TANDEM_COMPARISON

}  // namespace tandem::functors
