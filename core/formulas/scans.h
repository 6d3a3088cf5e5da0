// The operations of scans: each combines an element with the result for the previous elements, the same way on every
// device. Integers wrap around.
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
