// The transforms of cook_toom.h over lines of pixels, chosen at run time.
#pragma once

#include <tandem/core/cpu/conv/cook_toom.h>
#include <tandem/core/cpu/conv/lanes.h>

namespace tandem::cpu {

// Lines of pixels: numbers from one pixel to the next, and from one line to the next.
template <class T>
struct Pixels {
  T* data;
  std::int64_t step, line = 0;
};
// What lines of pixels become: tiles, each of n places, at which the tiles' numbers are multiplied. Numbers from one
// place to the next, from tile to tile, and from line to line. A line's tiles follow one another.
template <class T>
struct Places {
  T* data;
  std::int64_t place, tile, line = 0;
};
// How many there are. A pixel and a place have `channels` numbers, a multiple of `lanes`.
struct Counts {
  std::int64_t lines, tiles, channels;
};

// What is added to each pixel: a bias of the channels, where there is one, and the numbers that were there before.
struct Added {
  const float* bias = nullptr;
  bool add = false;
  Added from(std::int64_t channel) const { return {bias ? bias + channel : nullptr, add}; }
};

inline constexpr std::size_t most_places = 9;  // of all schemes

// One kind of tile along one axis: m outputs of a kernel of r taps.
struct CookToomScheme {
  int m, r;
  int n() const { return m + r - 1; }

  // Pixels to places. Tile t begins at pixel t m; the outputs' gradient has m pixels for a tile, the input has n.
  using ToPlaces = void (*)(const Pixels<const float>&, const Places<float>&, const Counts&);
  ToPlaces input, output_grad;
  // The same for one tile, whose pixels lie anywhere: n or m addresses.
  using TileToPlaces = void (*)(const float* const* pixels, float* places, std::int64_t place, std::int64_t channels);
  TileToPlaces input_tile, output_grad_tile;
  // Places to m pixels for each tile.
  using ToPixels = void (*)(const Places<const float>&, const Pixels<float>&, const Counts&, const Added&);
  ToPixels output;
  using TileToPixels = void (*)(const float* places, std::int64_t place, float* const* pixels, std::int64_t channels,
                                const Added&);
  TileToPixels output_tile;
  // The r taps of a line of the kernel to n places, and back for the kernel's gradient; and the numbers, (n, r), that
  // multiply the taps.
  ToPlaces kernel;
  ToPixels kernel_grad;
  const float* kernel_elements;
};

// The elements of M. The processor can multiply with a number in memory as fast as with a register. GCC does not know
// that these are constants; it would load them all into registers again for each tile.
template <class M>
[[gnu::always_inline]] inline const float* factors_of() {
  const float* factors = elements<M>.data();
  asm("" : "+r"(factors));
  return factors;
}

// A tile with its pixels at pixel(k), and with places `place` apart.
template <class M, class Pixel>
[[gnu::always_inline]] inline void transform_tile(Pixel pixel, float* to, std::int64_t place, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += lanes) {
    Lanes in[M::columns], out[M::rows];
    unroll<M::columns>([&](auto k) __attribute__((always_inline)) { in[k] = load<lanes>(pixel(k) + c); });
    multiply<M>(factors_of<M>(), in, out);
    unroll<M::rows>([&](auto i) __attribute__((always_inline)) { store<lanes>(to + c + i * place, out[i]); });
  }
}
// The same back.
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

// One tile whose pixels lie anywhere.
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
