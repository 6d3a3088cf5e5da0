// Number: a number as an argument. It remembers whether it was written as an integer, because that decides the dtype of
// arithmetic with it: an integer array plus 1 keeps its dtype, and plus 1.5 it becomes f32.
#pragma once

#include <tandem/core/base/check.h>

#include <type_traits>

namespace tandem {

struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T number)  // NOLINT: numbers convert
      : value(static_cast<double>(number)), is_integer(std::is_integral_v<T>) {
    // A long double holds every integer of 64 bits.
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
      TANDEM_CHECK(static_cast<long double>(value) == static_cast<long double>(number), "the integer ", number,
                   " is no double, and numbers as arguments are doubles: beyond 2^53 use an Array of one i64, "
                   "Array::from(std::vector<std::int64_t>{...}, {1})");
  }

  double value;
  bool is_integer;
};

}  // namespace tandem
