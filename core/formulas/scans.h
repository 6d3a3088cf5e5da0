// The operations of scans: what becomes of an element and of the result before it, the same on every device. Integers
// wrap around.
#pragma once

#include <tandem/core/formulas/reductions.h>

namespace tandem {

enum class Scan { sum, product };

namespace scans {

struct Sum {
  template <class T>
  TANDEM_HOST_DEVICE T first() const {
    return T(0);
  }
  template <class T>
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    return wrapping_sum(a, b);
  }
};

struct Product {
  template <class T>
  TANDEM_HOST_DEVICE T first() const {
    return T(1);
  }
  template <class T>
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    return wrapping_product(a, b);
  }
};

}  // namespace scans

}  // namespace tandem
