// Products of small matrices that lie in the caches, for one thread: the work of conv2d_cook_toom.cpp between its
// transforms. Columns come in panels of up to two vectors, so that the sums of some rows stay in registers.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {

// Numbers in a vector, and rows whose sums fit into the registers beside two vectors of columns.
#ifdef __AVX512F__
inline constexpr int lanes = 16, most_rows = 12;
#else
inline constexpr int lanes = 8, most_rows = 6;
#endif
using Lanes = vec<float, lanes>;

// A number of channels, rounded up to whole vectors.
constexpr std::int64_t padded(std::int64_t channels) { return (channels + lanes - 1) / lanes * lanes; }

// Columns of a panel: two vectors, or one at the end.
constexpr std::int64_t panel = 2 * lanes;

// Cuts `rows` into parts of nearly equal size, at most `most_rows`, and calls f(std::integral_constant<int, part>{},
// first row) for each.
template <class F>
void for_each_part(std::int64_t rows, F f) {
  const std::int64_t parts = (rows + most_rows - 1) / most_rows;
  const auto call = [&]<int... size>(std::int64_t first, std::int64_t count, std::integer_sequence<int, size...>) {
    ((count == size + 1 ? f(std::integral_constant<int, size + 1>{}, first) : void()), ...);
  };
  for (std::int64_t i = 0; i < parts; ++i)
    call(rows * i / parts, rows * (i + 1) / parts - rows * i / parts, std::make_integer_sequence<int, most_rows>{});
}

// A matrix (rows, inner) whose elements a vector of columns is multiplied with, one after the other: row-major or, where
// it is transposed, column-major. `stride` is from row to row, or from column to column.
template <bool transposed>
struct Factor {
  const float* data;
  std::int64_t stride;
};

// One part of a product: `rows` sums for `vectors` vectors of columns.
template <int rows, int vectors, bool transposed>
[[gnu::noinline]] void multiply_part(const Factor<transposed>& a, const float* __restrict b, std::int64_t b_row,
                                     std::int64_t inner, bool add, float* __restrict y, std::int64_t y_row) {
  Lanes sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[r][v] = Lanes{};
  // Row-major, each group of four rows has a pointer, from which the processor reaches all four.
  constexpr int groups = (rows + 3) / 4;
  const float* at[groups];
#pragma GCC unroll 4
  for (int g = 0; g < groups; ++g) at[g] = a.data + (transposed ? 4 * g : 4 * g * a.stride);
  const std::int64_t stride = a.stride;
  const auto step = [&](std::int64_t k) __attribute__((always_inline)) {
    Lanes columns[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) columns[v] = load<lanes>(b + k * b_row + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const float value = transposed ? at[0][k * stride + r] : at[r / 4][r % 4 * stride + k];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[r][v] += value * columns[v];
    }
  };
  const auto advance = [&](std::int64_t steps) __attribute__((always_inline)) {
    b += steps * b_row;
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) at[g] += transposed ? steps * stride : steps;
  };
  std::int64_t left = inner;
#pragma GCC unroll 1
  for (; left >= 4; left -= 4) {
    step(0);
    step(1);
    step(2);
    step(3);
    advance(4);
  }
#pragma GCC unroll 1
  for (; left > 0; --left) {
    step(0);
    advance(1);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const to = y + r * y_row + v * lanes;
      store<lanes>(to, add ? load<lanes>(to) + sums[r][v] : sums[r][v]);
    }
}

// y (rows, columns) = a (rows, inner) b (inner, columns), or y += a b. The rows of y lie y_row apart. b's columns lie in
// panels, b_panel from one to the next, and the rows of a panel b_row apart. `columns` is a multiple of `lanes`.
template <bool transposed>
void multiply_tiles(std::int64_t rows, std::int64_t inner, std::int64_t columns, const Factor<transposed>& a,
                    const float* b, std::int64_t b_panel, std::int64_t b_row, bool add, float* y, std::int64_t y_row) {
  for (std::int64_t c = 0; c < columns; c += panel, b += b_panel)
    for_each_part(rows, [&](auto part, std::int64_t first) {
      const Factor<transposed> from{a.data + (transposed ? first : first * a.stride), a.stride};
      float* const to = y + first * y_row + c;
      if (columns - c > lanes) multiply_part<part, 2>(from, b, b_row, inner, add, to, y_row);
      else multiply_part<part, 1>(from, b, b_row, inner, add, to, y_row);
    });
}

}  // namespace tandem::cpu
