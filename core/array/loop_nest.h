// LoopNest: walks several arrays of the same shape together, whatever their strides.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/half.h>

#include <algorithm>
#include <array>

namespace tandem {

// The dimensions of K arrays of the same shape. Adjacent dimensions are merged if all arrays allow it. They are ordered
// so that the walk goes through the memory of the last array (the output) in order. The innermost dimension comes last.
// Strides are in elements.
template <int K>
struct LoopNest {
  int ndim = 0;
  std::array<std::int64_t, Dims::max_ndim> size{};
  std::array<std::array<std::int64_t, K>, Dims::max_ndim> stride{};

  explicit LoopNest(const std::array<const Array*, K>& arrays) {
    const Shape& shape = arrays[K - 1]->shape();
    std::array<int, Dims::max_ndim> order{};
    int count = 0;
    const Strides& walked = arrays[K - 1]->strides();
    for (int i = 0; i < shape.ndim(); ++i) {
      if (shape[i] == 1) continue;
      int at = count++;
      for (; at > 0 && walked[order[at - 1]] < walked[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
    for (int i = 0; i < count; ++i) {
      std::array<std::int64_t, K> s;
      for (int k = 0; k < K; ++k) s[k] = arrays[k]->strides()[order[i]];
      const std::int64_t n = shape[order[i]];
      bool joins = ndim > 0;
      for (int k = 0; joins && k < K; ++k) joins = stride[ndim - 1][k] == s[k] * n;
      if (joins) {
        size[ndim - 1] *= n;
        stride[ndim - 1] = s;
      } else {
        size[ndim] = n;
        stride[ndim++] = s;
      }
    }
    if (ndim == 0) {
      size[0] = 1;
      ndim = 1;
    }
  }

  // Returns whether each array is one dense run of numbers.
  bool is_dense() const {
    return ndim == 1 && (size[0] == 1 || std::ranges::all_of(stride[0], [](auto s) { return s == 1; }));
  }

  // Returns the offset of element `index` of the walk in each array, in elements. If `without` is not 0, that many
  // innermost dimensions are ignored, and `index` counts the elements of the others.
  TANDEM_HOST_DEVICE std::array<std::int64_t, K> offsets(std::int64_t index, int without = 0) const {
    std::array<std::int64_t, K> result{};
    for (int d = ndim - 1 - without; d >= 0; --d) {
      const std::int64_t i = d == 0 ? index : index % size[d];
      index /= size[d];
      for (int k = 0; k < K; ++k) result[k] += i * stride[d][k];
    }
    return result;
  }
};

// Returns the offset of element `index` of a view, in elements. `index` counts in row-major order.
TANDEM_HOST_DEVICE inline std::int64_t offset_of(std::int64_t index, int ndim, const std::int64_t* shape,
                                                 const std::int64_t* strides) {
  std::int64_t offset = 0;
  for (int d = ndim - 1; d >= 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return offset;
}

}  // namespace tandem
