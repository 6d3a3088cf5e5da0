// What gather and scatter of all devices share.
#pragma once

#include <tandem/core/array/loop_nest.h>

namespace tandem {

// `array` as a view of the given shape with stride 0 in `dim`: for each element of `shape`, it shows where the first
// slice of `array` along `dim` has the matching element.
inline Array repeated_along(const Array& array, int dim, const Shape& shape) {
  Strides strides = array.strides();
  strides[dim] = 0;
  return Array(array.storage(), shape, strides, array.offset(), array.dtype());
}

}  // namespace tandem
