// Products of small matrices in the caches, on one thread: the work for tiles between their transforms
// (cook_toom_kernels.cpp). Columns are stored in panels of up to two vectors, so the sums of some rows stay in
// registers.
#pragma once

#include <tandem/core/cpu/conv/lanes.h>

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {

// The number of rows whose sums fit into the registers next to two vectors of columns.
inline constexpr int most_rows = lanes == 16 ? 12 : 6;

// The number of columns of a panel: two vectors. The last panel may have only one.
constexpr std::int64_t panel = 2 * lanes;

// `count` products. The matrices of the next product lie a_next, b_next and y_next numbers further on:
//   y (rows, columns) = a (rows, inner) b (inner, columns), or y += a b.
// `a` is row-major or, if it is transposed, column-major; a_line is the distance between rows, or between columns. The
// columns of b are stored in panels at distances of b_panel, and the rows of a panel are b_row apart. The same holds
// for y. `columns` is a multiple of `lanes`.
struct TileProducts {
  std::int64_t count, rows, inner, columns;
  const float* a;
  std::int64_t a_line, a_next;
  const float* b;
  std::int64_t b_panel, b_row, b_next;
  float* y;
  std::int64_t y_panel, y_row, y_next;
  bool add;
};

// Computes a part of the rows of a product, with `vectors` vectors of columns.
template <int rows, int vectors, bool transposed>
[[gnu::noinline]] void multiply_part(const TileProducts& p, const float* a_first, const float* b_first,
                                     float* y_first) {
  // If `a` is row-major, each group of four rows has a pointer, from which the processor can address all four.
  constexpr int groups = transposed ? 1 : (rows + 3) / 4;
  const std::int64_t line = p.a_line, b_row = p.b_row;
  std::int64_t to_row[4] = {0, line, 2 * line, 3 * line};
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < p.count; ++i, a_first += p.a_next, b_first += p.b_next, y_first += p.y_next) {
    Lanes sums[rows][vectors];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[r][v] = Lanes{};
    const float* b = b_first;
    const float* a[groups];
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) a[g] = a_first + 4 * g * line;
    const auto step = [&](int k) __attribute__((always_inline)) {
      Lanes columns[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) columns[v] = load<lanes>(b + v * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const float value = transposed ? a[0][r] : a[r / 4][to_row[r % 4] + k];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sums[r][v] += value * columns[v];
      }
      b += b_row;
      if (transposed) a[0] += line;
    };
    const auto advance = [&](int steps) __attribute__((always_inline)) {
      if (transposed) return;
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) a[g] += steps;
      // GCC would keep an address for each row and step, and spill most of them.
      asm("" : "+r"(to_row[1]), "+r"(to_row[2]), "+r"(to_row[3]));
    };
    std::int64_t left = p.inner;
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
        float* const to = y_first + r * p.y_row + v * lanes;
        store<lanes>(to, p.add ? load<lanes>(to) + sums[r][v] : sums[r][v]);
      }
  }
}

// Returns the number of parts of a sum. Adding up in parts, on two levels, keeps errors small. If `a` is transposed, y
// is the larger matrix, so larger parts read and write it less often.
template <bool transposed>
constexpr std::int64_t parts_of_sum(std::int64_t inner) {
  constexpr std::int64_t most = transposed ? 512 : 128;
  return std::max<std::int64_t>((inner + most - 1) / most, 1);
}

template <bool transposed>
void multiply_tiles(const TileProducts& all) {
  const std::int64_t parts = parts_of_sum<transposed>(all.inner);
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = all.inner * i / parts, end = all.inner * (i + 1) / parts;
    TileProducts p = all;
    p.inner = end - begin;
    p.add = all.add || i > 0;
    for (std::int64_t c = 0; c < p.columns; c += panel)
      for_each_part<most_rows>(p.rows, [&](auto part, std::int64_t first) {
        const float* const a = p.a + (transposed ? first + begin * p.a_line : first * p.a_line + begin);
        const float* const b = p.b + c / panel * p.b_panel + begin * p.b_row;
        float* const y = p.y + c / panel * p.y_panel + first * p.y_row;
        if (p.columns - c > lanes) multiply_part<part, 2, transposed>(p, a, b, y);
        else multiply_part<part, 1, transposed>(p, a, b, y);
      });
  }
}

}  // namespace tandem::cpu
