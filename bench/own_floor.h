// The floor under a training step of the MNIST network with the kernels that Tandem chooses: the multiplications of its
// convolutions at the speed of the core, and every byte that a step must read or write at the speed of the cache.
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
  double multiplications, bytes;                    // of a step
  double multiplications_a_second, bytes_a_second;  // measured, the best of many tries
  double milliseconds() const { return 1000 * (multiplications / multiplications_a_second + bytes / bytes_a_second); }
};

// Seconds of the fastest of many calls of f.
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

// A product of matrices that lie in the first cache.
inline double multiplications_a_second() {
  constexpr std::int64_t rows = most_rows, inner = 128, times = 256;
  std::vector<float> a(rows * inner, 1), b(inner * panel, 1), y(rows * panel);
  const TileProducts products{times, rows,  inner, panel,    a.data(), inner, 0, b.data(),
                              0,     panel, 0,     y.data(), 0,        panel, 0, false};
  return rows * inner * panel * times / fastest([&] { multiply_tiles<false>(products); });
}

// A copy of what the first convolution gives, which is larger than the second cache.
inline double bytes_a_second() {
  std::vector<float> from(batch * 16 * 28 * 28, 1), to(from.size());
  return static_cast<double>(2 * sizeof(float) * from.size()) /
         fastest([&] { std::copy(from.begin(), from.end(), to.begin()); });
}

// Multiplications of one pass of a convolution of 5 x 5 with padding 2, by tiles: of F(4, 5) along the rows alone where
// there is one input.
inline double multiplications_of(std::int64_t size, std::int64_t inputs, std::int64_t outputs) {
  if (inputs == 1) return static_cast<double>(batch * size * (size + 3) / 4 * 8 * 5 * outputs);
  const CookToomChoice tiles = choose_cook_toom(5, 1, size, inputs, outputs);
  const auto along = [&](const CookToomScheme& s) { return (size + s.m - 1) / s.m * s.n(); };
  return static_cast<double>(batch * along(*tiles.rows) * along(*tiles.columns) * inputs * outputs);
}

// What a convolution with its batch norm, ReLU and pooling moves. Its output is written by the convolution, read for
// the statistics, when it is normalised, and twice in backward; its gradient is written, and read for the gradient of
// the weight, and for that of the input where one is wanted. What pooling leaves is written, read by the next layer
// forward and backward; its gradient is written, and read twice.
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
