// Number: a numeric argument. It remembers whether the caller passed an integer, because that decides the dtype of the
// result: an integer array plus 1 keeps its dtype, but an integer array plus 1.5 becomes f32.
#pragma once

#include <tandem/core/base/check.h>

#include <type_traits>

namespace tandem {

struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)  // NOLINT: numbers convert
      : value(static_cast<double>(number)), is_integer(std::is_integral_v<T>) {
    // A long double represents every 64-bit integer exactly.
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
      TANDEM_CHECK(static_cast<long double>(value) == static_cast<long double>(number), "the integer ", number,
                   " has no exact double, the type of number arguments; beyond 2^53, pass an Array with one i64: "
                   "Array::from(std::vector<std::int64_t>{...}, {1})");
  }

  double value;
  bool is_integer;
};

}  // namespace tandem
