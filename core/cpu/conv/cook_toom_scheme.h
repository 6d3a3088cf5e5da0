// Applies the transforms of cook_toom.h to lines of pixels. The scheme F(m, r) is selected at run time.
#pragma once

#include <tandem/core/cpu/conv/cook_toom.h>
#include <tandem/core/cpu/conv/lanes.h>

namespace tandem::cpu {

// Lines of pixels. `step` is the distance from one pixel to the next, and `line` from one line to the next, in numbers.
template <class T>
struct Pixels {
  T* data;
  std::int64_t step, line = 0;
};
// The transformed lines of pixels: tiles, each of n places, at which the numbers of the tiles are multiplied. The
// members are the distances from one place to the next, from tile to tile, and from line to line, in numbers. A line's
// tiles are consecutive.
template <class T>
struct Places {
  T* data;
  std::int64_t place, tile, line = 0;
};
// The sizes. A pixel and a place have `channels` numbers, a multiple of `lanes`.
struct Counts {
  std::int64_t lines, tiles, channels;
};

// The values added to each pixel: an optional bias per channel and, if `add`, the previous numbers.
struct Added {
  const float* bias = nullptr;
  bool add = false;
  Added from(std::int64_t channel) const { return {bias ? bias + channel : nullptr, add}; }
};

inline constexpr std::size_t most_places = 9;  // the maximum over all schemes

// One kind of tile along one axis: m outputs of a kernel of r taps.
struct CookToomScheme {
  int m, r;
  int n() const { return m + r - 1; }

  // Transforms pixels to places. Tile t begins at pixel t m; the outputs' gradient has m pixels per tile, the input has
  // n.
  using ToPlaces = void (*)(const Pixels<const float>&, const Places<float>&, const Counts&);
  ToPlaces input, output_grad;
  // The same for one tile whose pixels have arbitrary addresses: n or m of them.
  using TileToPlaces = void (*)(const float* const* pixels, float* places, std::int64_t place, std::int64_t channels);
  TileToPlaces input_tile, output_grad_tile;
  // Transforms places to m pixels for each tile.
  using ToPixels = void (*)(const Places<const float>&, const Pixels<float>&, const Counts&, const Added&);
  ToPixels output;
  using TileToPixels = void (*)(const float* places, std::int64_t place, float* const* pixels, std::int64_t channels,
                                const Added&);
  TileToPixels output_tile;
  // Transforms the r taps of a line of the kernel to n places, and back for the kernel's gradient. kernel_elements
  // points to the (n, r) factors of the taps.
  ToPlaces kernel;
  ToPixels kernel_grad;
  const float* kernel_elements;
};

// Returns the elements of M. The processor multiplies with a number in memory as fast as with a register. The asm
// statement hides from GCC that these are constants; otherwise GCC would load them all into registers for each tile.
template <class M>
[[gnu::always_inline]] inline const float* factors_of() {
  const float* factors = elements<M>.data();
  asm("" : "+r"(factors));
  return factors;
}

// Transforms a tile whose pixels are at pixel(k). The places are `place` numbers apart.
template <class M, class Pixel>
[[gnu::always_inline]] inline void transform_tile(Pixel pixel, float* to, std::int64_t place, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += lanes) {
    Lanes in[M::columns], out[M::rows];
    unroll<M::columns>([&](auto k) __attribute__((always_inline)) { in[k] = load<lanes>(pixel(k) + c); });
    multiply<M>(factors_of<M>(), in, out);
    unroll<M::rows>([&](auto i) __attribute__((always_inline)) { store<lanes>(to + c + i * place, out[i]); });
  }
}
// The reverse of transform_tile().
template <class M, class Pixel>
[[gnu::always_inline]] inline void restore_tile(const float* from, std::int64_t place, Pixel pixel,
                                                std::int64_t channels, const Added& added) {
  for (std::int64_t c = 0; c < channels; c += lanes) {
    Lanes in[M::rows], out[M::columns];
    unroll<M::rows>([&](auto i) __attribute__((always_inline)) { in[i] = load<lanes>(from + c + i * place); });
    multiply_transposed<M>(factors_of<M>(), in, out);
    if (added.bias) {
      const Lanes bias = load<lanes>(added.bias + c);
      unroll<M::columns>([&](auto k) __attribute__((always_inline)) { out[k] += bias; });
    }
    if (added.add)
      unroll<M::columns>([&](auto k) __attribute__((always_inline)) { out[k] += load<lanes>(pixel(k) + c); });
    unroll<M::columns>([&](auto k) __attribute__((always_inline)) { store<lanes>(pixel(k) + c, out[k]); });
  }
}

template <class M>
void to_places(const Pixels<const float>& pixels, const Places<float>& places, const Counts& counts) {
  const std::int64_t step = pixels.step, place = places.place;
  for (std::int64_t l = 0; l < counts.lines; ++l)
    for (std::int64_t t = 0; t < counts.tiles; ++t) {
      const float* const from = pixels.data + l * pixels.line + t * M::tile * step;
      transform_tile<M>(
          [&](int k) __attribute__((always_inline)) { return from + k * step; },
          places.data + l * places.line + t * places.tile, place, counts.channels);
    }
}

template <class M>
void to_pixels(const Places<const float>& places, const Pixels<float>& pixels, const Counts& counts,
               const Added& added) {
  const std::int64_t step = pixels.step, place = places.place;
  for (std::int64_t l = 0; l < counts.lines; ++l)
    for (std::int64_t t = 0; t < counts.tiles; ++t) {
      float* const to = pixels.data + l * pixels.line + t * M::tile * step;
      restore_tile<M>(
          places.data + l * places.line + t * places.tile,
          place, [&](int k) __attribute__((always_inline)) { return to + k * step; }, counts.channels, added);
    }
}

// Transforms one tile whose pixels have arbitrary addresses.
template <class M>
void to_places_of(const float* const* pixels, float* places, std::int64_t place, std::int64_t channels) {
  transform_tile<M>(
      [&](int k) __attribute__((always_inline)) { return pixels[k]; }, places, place, channels);
}
template <class M>
void to_pixels_of(const float* places, std::int64_t place, float* const* pixels, std::int64_t channels,
                  const Added& added) {
  restore_tile<M>(
      places, place, [&](int k) __attribute__((always_inline)) { return pixels[k]; }, channels, added);
}

template <int m, int r>
requires(m + r - 1 <= most_places) inline constexpr CookToomScheme scheme{
    m,
    r,
    to_places<typename CookToom<m, r>::Input>,
    to_places<typename CookToom<m, r>::Output>,
    to_places_of<typename CookToom<m, r>::Input>,
    to_places_of<typename CookToom<m, r>::Output>,
    to_pixels<typename CookToom<m, r>::Output>,
    to_pixels_of<typename CookToom<m, r>::Output>,
    to_places<typename CookToom<m, r>::Kernel>,
    to_pixels<typename CookToom<m, r>::Kernel>,
    elements<typename CookToom<m, r>::Kernel>.data(),
};

}  // namespace tandem::cpu
