// The floor of a training step of the MNIST network with the kernels that Tandem chooses. It is the time for the
// multiplications of the convolutions at the core's speed, plus the time for every byte that a step must read or write
// at the cache's speed.
#pragma once

#include <tandem/core/cpu/conv/cook_toom_choice.h>
#include <tandem/core/cpu/conv/tile_products.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace own_floor {

using namespace tandem;
using namespace tandem::cpu;

constexpr std::int64_t batch = 100;

struct Floor {
  double multiplications, bytes;                    // per step
  double multiplications_a_second, bytes_a_second;  // measured, the best of many tries
  double milliseconds() const { return 1000 * (multiplications / multiplications_a_second + bytes / bytes_a_second); }
};

// The seconds of the fastest of many calls to f.
template <class F>
double fastest(F f) {
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Measures a matrix product whose operands fit the first-level cache.
inline double multiplications_a_second() {
  constexpr std::int64_t rows = most_rows, inner = 128, times = 256;
  std::vector<float> a(rows * inner, 1), b(inner * panel, 1), y(rows * panel);
  const TileProducts products{times, rows,  inner, panel,    a.data(), inner, 0, b.data(),
                              0,     panel, 0,     y.data(), 0,        panel, 0, false};
  return rows * inner * panel * times / fastest([&] { multiply_tiles<false>(products); });
}

// Measures a copy of the first convolution's output, which is larger than the second-level cache.
inline double bytes_a_second() {
  std::vector<float> from(batch * 16 * 28 * 28, 1), to(from.size());
  return static_cast<double>(2 * sizeof(float) * from.size()) /
         fastest([&] { std::copy(from.begin(), from.end(), to.begin()); });
}

// The multiplications in one pass of a 5 x 5 convolution with padding 2, computed with tiles: with F(4, 5) along the
// rows only if there is one input.
inline double multiplications_of(std::int64_t size, std::int64_t inputs, std::int64_t outputs) {
  if (inputs == 1) return static_cast<double>(batch * size * (size + 3) / 4 * 8 * 5 * outputs);
  const CookToomChoice tiles = choose_cook_toom(5, 1, size, inputs, outputs);
  const auto along = [&](const CookToomScheme& s) { return (size + s.m - 1) / s.m * s.n(); };
  return static_cast<double>(batch * along(*tiles.rows) * along(*tiles.columns) * inputs * outputs);
}

// The bytes that a convolution with its batch norm, ReLU and pooling moves. The convolution's output is written once,
// read for the statistics, read again for the normalisation, and read twice in backward. Its gradient is written, and
// read for the gradient of the weight and, if needed, for that of the input. The pooling's output is written, and read
// by the next layer in forward and in backward. Its gradient is written once and read twice.
inline double bytes_of(std::int64_t size, std::int64_t outputs, bool input_gradient) {
  const std::int64_t image = batch * size * size * outputs * 4, pooled = image / 4;
  return static_cast<double>(image * (7 + (input_gradient ? 1 : 0)) + pooled * 6);
}

inline Floor measure() {
  const double multiplications =
      2 * multiplications_of(28, 1, 16) + 2 * multiplications_of(14, 16, 32) + multiplications_of(14, 32, 16);
  return {multiplications, bytes_of(28, 16, false) + bytes_of(14, 32, true), multiplications_a_second(),
          bytes_a_second()};
}

}  // namespace own_floor
