// A function that gather and scatter share on all devices.
#pragma once

#include <tandem/core/array/loop_nest.h>

namespace tandem {

// Returns `array` as a view of the given shape with stride 0 in `dim`. For each element of `shape`, the view refers to
// the matching element in the first slice of `array` along `dim`.
inline Array repeated_along(const Array& array, int dim, const Shape& shape) {
  Strides strides = array.strides();
  strides[dim] = 0;
  return Array(array.storage(), shape, strides, array.offset(), array.dtype());
}

}  // namespace tandem
