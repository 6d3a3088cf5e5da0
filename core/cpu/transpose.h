// Transposes matrices in memory, in squares that are transposed within the processor's registers.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tandem::cpu {

// The bytes of a row of the square that is transposed within registers. The square has L x L numbers, where L numbers
// fill these bytes.
#ifdef __AVX512F__
inline constexpr std::size_t turned_bytes = 64;
#else
inline constexpr std::size_t turned_bytes = 32;
#endif
template <class T>
inline constexpr int turned = std::min<int>(16, turned_bytes / sizeof(T));

// Returns the numbers of a and b, alternating, starting at lane `from`. `lanes` are 0, 1, ... in V.
template <int from, class V, int... lanes>
[[gnu::always_inline]] inline V interleaved(V a, V b, std::integer_sequence<int, lanes...>) {
  constexpr int L = sizeof...(lanes);
  return __builtin_shufflevector(a, b, (from + lanes / 2 + lanes % 2 * L)...);
}

// Transposes a square of L rows from `from` to `to`. Each round interleaves rows i and i + L/2 to form rows 2 i and 2 i
// + 1. After log2(L) rounds, each element is at its position. For a part of a square, only `rows` rows are read and
// only `columns` rows are written, but each row still has L numbers.
template <class T, int L = turned<T>>
[[gnu::always_inline]] inline void turn_square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                                               std::int64_t rows = L, std::int64_t columns = L) {
  using V = vec<T, L>;
  constexpr std::make_integer_sequence<int, L> lanes;
  V row[L];
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) row[i] = i < rows ? load_raw<T, L>(from + i * from_stride) : V{};
#pragma GCC unroll 4
  for (int round = 1; round < L; round *= 2) {
    V next[L];
#pragma GCC unroll 8
    for (int i = 0; i < L / 2; ++i) {
      next[2 * i] = interleaved<0>(row[i], row[i + L / 2], lanes);
      next[2 * i + 1] = interleaved<L / 2>(row[i], row[i + L / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) row[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i)
    if (i < columns) std::memcpy(to + i * to_stride, &row[i], sizeof row[i]);
}

// to (columns, rows) = from (rows, columns). Their rows are to_step and from_step apart. After the last row of `from`,
// `behind` more numbers may be read.
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, std::int64_t from_step, T* to,
               std::int64_t to_step, std::int64_t behind = 0) {
  constexpr int L = turned<T>;
  const T* const end = from + (rows - 1) * from_step + columns + behind;
  const auto one_by_one = [&](std::int64_t r, std::int64_t down, std::int64_t c, std::int64_t across) {
    for (std::int64_t i = c; i < c + across; ++i)
      for (std::int64_t k = r; k < r + down; ++k) to[i * to_step + k] = from[k * from_step + i];
  };
  for (std::int64_t c = 0; c < columns; c += L)
    for (std::int64_t r = 0; r < rows; r += L) {
      const std::int64_t down = std::min<std::int64_t>(rows - r, L), across = std::min<std::int64_t>(columns - c, L);
      const T* const square = from + r * from_step + c;
      T* const place = to + c * to_step + r;
      if (down == L && across == L) {
        turn_square<T>(square, from_step, place, to_step);
      } else if (down == L && square + (L - 1) * from_step + L <= end) {
        turn_square<T>(square, from_step, place, to_step, L, across);
      } else if (across == L && to_step == down) {
        // Each row is written with L numbers, and the next row overwrites the excess.
        const std::int64_t fit = L + 1 - (L + down - 1) / down;
        turn_square<T>(square, from_step, place, to_step, down, fit);
        one_by_one(r, down, c + fit, L - fit);
      } else {
        one_by_one(r, down, c, across);
      }
    }
}

}  // namespace tandem::cpu
