// The transforms of cook_toom.h over lines of pixels, chosen at run time.
#pragma once

#include <tandem/core/cpu/cook_toom.h>
#include <tandem/core/cpu/tile_products.h>

namespace tandem::cpu {

// A line of pixels with `channels` numbers each, `step` from one to the next, and what it becomes: tiles of places, with
// as many numbers. `channels` is a multiple of `lanes`.
template <class T>
struct Pixels {
  T* data;
  std::int64_t step;
};
template <class T>
struct Places {
  T* data;
  std::int64_t tile_step, place_step;
};

// One kind of tile along one axis: m outputs of a kernel of r taps.
struct CookToomScheme {
  int m, r;
  int n() const { return m + r - 1; }

  // Pixels to places. Tile t begins at pixel t m; the outputs' gradient has m pixels for a tile, the input has n.
  using ToPlaces = void (*)(Pixels<const float>, Places<float>, std::int64_t tiles, std::int64_t channels);
  ToPlaces input, output_grad;
  // Places to m pixels for each tile.
  using ToPixels = void (*)(Places<const float>, Pixels<float>, std::int64_t tiles, std::int64_t channels);
  ToPixels output;
  // The r taps of one line of the kernel to n places, and back for the kernel's gradient. In f64, since the weight is
  // part of every sum.
  void (*kernel)(Pixels<const double>, Places<double>, std::int64_t tiles, std::int64_t channels);
  void (*kernel_grad)(Places<const double>, Pixels<double>, std::int64_t tiles, std::int64_t channels);
};

template <class M, class T>
void to_places(Pixels<const T> from, Places<T> to, std::int64_t tiles, std::int64_t channels) {
  constexpr int width = lanes * sizeof(float) / sizeof(T);
  for (std::int64_t t = 0; t < tiles; ++t, from.data += M::tile * from.step, to.data += to.tile_step)
    for (std::int64_t c = 0; c < channels; c += width) {
      vec<T, width> in[M::columns], out[M::rows];
      unroll<M::columns>([&](auto k) { in[k] = load<width>(from.data + k * from.step + c); });
      multiply<M>(in, out);
      unroll<M::rows>([&](auto i) { store<width>(to.data + i * to.place_step + c, out[i]); });
    }
}

template <class M, class T>
void to_pixels(Places<const T> from, Pixels<T> to, std::int64_t tiles, std::int64_t channels) {
  constexpr int width = lanes * sizeof(float) / sizeof(T);
  for (std::int64_t t = 0; t < tiles; ++t, from.data += from.tile_step, to.data += M::tile * to.step)
    for (std::int64_t c = 0; c < channels; c += width) {
      vec<T, width> in[M::rows], out[M::columns];
      unroll<M::rows>([&](auto i) { in[i] = load<width>(from.data + i * from.place_step + c); });
      multiply_transposed<M>(in, out);
      unroll<M::columns>([&](auto k) { store<width>(to.data + k * to.step + c, out[k]); });
    }
}

template <int m, int r>
inline constexpr CookToomScheme scheme{
    m,
    r,
    to_places<typename CookToom<m, r>::Input, float>,
    to_places<typename CookToom<m, r>::Output, float>,
    to_pixels<typename CookToom<m, r>::Output, float>,
    to_places<typename CookToom<m, r>::Kernel, double>,
    to_pixels<typename CookToom<m, r>::Kernel, double>,
};

}  // namespace tandem::cpu
