// Number: a number as an argument. It remembers whether it was written as an integer, because that decides the dtype of
// arithmetic with it: an integer array plus 1 keeps its dtype, and plus 1.5 it becomes f32.
#pragma once

#include <type_traits>

namespace tandem {

struct Number {
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value)  // NOLINT: numbers convert
      : value(static_cast<double>(value)), is_integer(std::is_integral_v<T>) {}

  double value;  // integers are exact up to 2^53
  bool is_integer;
};

}  // namespace tandem
