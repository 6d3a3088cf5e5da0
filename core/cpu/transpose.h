// Transposes matrices in memory, in squares that are turned within the processor's registers.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {

// The bytes of a row of the square that is transposed within registers. The square has L x L numbers, where L of them
// fill these bytes.
#ifdef __AVX512F__
inline constexpr std::size_t turned_bytes = 64;
#else
inline constexpr std::size_t turned_bytes = 32;
#endif
template <class T>
inline constexpr int turned = std::min<int>(16, turned_bytes / sizeof(T));

// Transposes a square of L rows from `from` to `to`. Each round deals row i and row i + L/2 out to rows 2 i and 2 i +
// 1, element by element in turns. After log2(L) rounds each element has come to its place.
template <class T, int L = turned<T>>
void turn_square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  using V = vec<T, L>;
  using Index = std::conditional_t<
      sizeof(T) == 1, std::uint8_t,
      std::conditional_t<sizeof(T) == 2, std::uint16_t,
                         std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;  // as wide as a T
  vec<Index, L> low{}, high{};
  for (int i = 0; i < L; ++i) {
    low[i] = static_cast<Index>(i / 2 + i % 2 * L);
    high[i] = static_cast<Index>(low[i] + L / 2);
  }
  V row[L];
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) row[i] = load_raw<T, L>(from + i * from_stride);
#pragma GCC unroll 4
  for (int round = 1; round < L; round *= 2) {
    V next[L];
#pragma GCC unroll 8
    for (int i = 0; i < L / 2; ++i) {
      next[2 * i] = __builtin_shuffle(row[i], row[i + L / 2], low);
      next[2 * i + 1] = __builtin_shuffle(row[i], row[i + L / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) row[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) std::memcpy(to + i * to_stride, &row[i], sizeof row[i]);
}

// to (columns, rows) = from (rows, columns). Their rows lie to_step and from_step apart.
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, std::int64_t from_step, T* to,
               std::int64_t to_step) {
  constexpr int L = turned<T>;
  const std::int64_t whole_rows = rows / L * L, whole_columns = columns / L * L;
  for (std::int64_t c = 0; c < whole_columns; c += L) {
    for (std::int64_t r = 0; r < whole_rows; r += L)
      turn_square<T>(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    for (std::int64_t r = whole_rows; r < rows; ++r)
      for (int i = 0; i < L; ++i) to[(c + i) * to_step + r] = from[r * from_step + c + i];
  }
  for (std::int64_t c = whole_columns; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
}

}  // namespace tandem::cpu
