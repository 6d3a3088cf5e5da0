// What a scan does at each element with what came before: the same on every device. Integers wrap around.
#pragma once

#include <tandem/core/reductions.h>

namespace tandem::scans {

struct Sum {
  template <class T>
  TANDEM_HOST_DEVICE T first() const {
    return T(0);
  }
  template <class T>
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else return a + b;
  }
};

struct Product {
  template <class T>
  TANDEM_HOST_DEVICE T first() const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else return a * b;
  }
};

}  // namespace tandem::scans
