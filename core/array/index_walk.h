// What gather and scatter share on all devices.
#pragma once

#include <tandem/core/array/loop_nest.h>

namespace tandem {

// `array` with stride 0 in `dim`: where its first slice lies for each element of `shape`.
inline Array repeated_along(const Array& array, int dim, const Shape& shape) {
  Strides strides = array.strides();
  strides[dim] = 0;
  return Array(array.storage(), shape, strides, array.offset(), array.dtype());
}

}  // namespace tandem
