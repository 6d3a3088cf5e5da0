// Vectors of channels, as the methods of this room use them: how many lanes there are, memory that fits whole vectors,
// and loops that are written out when they are compiled.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace tandem::cpu {

// The numbers of a vector.
inline constexpr int lanes = float_lanes;
using Lanes = vec<float, lanes>;

// A number of channels, rounded up to whole vectors.
constexpr std::int64_t padded(std::int64_t channels) { return (channels + lanes - 1) / lanes * lanes; }

// Distances in memory, in numbers. Multiples of a large power of two share few places of a cache, so that they would
// drive each other out.
constexpr std::int64_t spread(std::int64_t numbers) { return numbers % 256 == 0 ? numbers + 16 : numbers; }

// Calls f(std::integral_constant<int, 0>{}), f(1), ... up to count - 1.
template <int count, class F>
[[gnu::always_inline]] inline void unroll(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

// Cuts `rows` into parts of nearly equal size, at most `most`, and calls f(std::integral_constant<int, part>{}, first
// row) for each.
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
