// Vectors of channels for the methods of this folder: the number of lanes, sizes of memory for whole vectors, and loops
// that are unrolled at compile time.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace tandem::cpu {

// The number of elements of a vector.
inline constexpr int lanes = float_lanes;
using Lanes = vec<float, lanes>;

// Rounds a number of channels up to whole vectors.
constexpr std::int64_t padded(std::int64_t channels) { return (channels + lanes - 1) / lanes * lanes; }

// Returns a distance in memory, in numbers, increased if it is a multiple of a large power of two. At multiples of a
// large power of two, numbers share few sets of a cache and would evict each other.
constexpr std::int64_t spread(std::int64_t numbers) { return numbers % 256 == 0 ? numbers + 16 : numbers; }

// Calls f(std::integral_constant<int, 0>{}), f(1), ... up to count - 1.
template <int count, class F>
[[gnu::always_inline]] inline void unroll(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

// Divides `rows` into parts of nearly equal size, at most `most`, and calls f(std::integral_constant<int, part>{},
// first row) for each part.
template <int most, class F>
void for_each_part(std::int64_t rows, F f) {
  const std::int64_t parts = (rows + most - 1) / most;
  const auto call = [&]<int... size>(std::int64_t first, std::int64_t count, std::integer_sequence<int, size...>) {
    ((count == size + 1 ? f(std::integral_constant<int, size + 1>{}, first) : void()), ...);
  };
  for (std::int64_t i = 0; i < parts; ++i)
    call(rows * i / parts, rows * (i + 1) / parts - rows * i / parts, std::make_integer_sequence<int, most>{});
}

}  // namespace tandem::cpu
