// Reads the elements of arrays.
#pragma once

#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <vector>

namespace tandem::fuzz {

inline void touch(const Array& array, int dim, std::int64_t position, std::int64_t& budget) {
  if (budget <= 0) return;
  if (dim == array.ndim()) {
    --budget;
    const auto size = size_of(array.dtype());
    const volatile char* at =
        static_cast<const char*>(array.storage()->data()) + position * static_cast<std::int64_t>(size);
    static_cast<void>(at[0]);
    static_cast<void>(at[size - 1]);
    return;
  }
  for (std::int64_t i = 0; i < array.shape()[dim] && budget > 0; ++i)
    touch(array, dim + 1, position + i * array.strides()[dim], budget);
}

// Reads at most a few thousand elements of each array, including the first and the last.
inline void touch(const std::vector<NamedArray>& arrays) {
  for (const auto& [name, array] : arrays) {
    if (array.numel() == 0) continue;
    std::int64_t budget = 5000;
    touch(array, 0, array.offset(), budget);
    std::int64_t last = array.offset();
    for (int i = 0; i < array.ndim(); ++i) last += (array.shape()[i] - 1) * array.strides()[i];
    touch(array, array.ndim(), last, budget = 1);
  }
}

}  // namespace tandem::fuzz
