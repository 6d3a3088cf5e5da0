// The weight of a convolution at the places of its tiles, and the way back for its gradient: panel by panel of outputs.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/cook_toom_tiles.h>

namespace tandem::cpu {

// The taps of a weight with its outputs innermost, in panels: (panels, inputs, kernel h * kernel w, panel width), f32.
// The last panel has zeros behind its outputs.
struct KernelTaps {
  std::int64_t inputs, taps, width;
  Array array;
  bool turned;

  // Of a weight (outputs, inputs, kernel h, kernel w). Where `turned`, of (inputs, outputs, kernel h, kernel w), with
  // kernels turned by half a turn, as the gradient of the input sees them.
  KernelTaps(const Array& weight, bool turned);
  // For sums, which copy_to() brings into such a weight.
  KernelTaps(std::int64_t inputs, std::int64_t taps, std::int64_t outputs, bool turned);
  void copy_to(const Array& weight) const;
};

// Tiles of an image at the places of one column: `count` rows of `line` numbers each, and place_step from one place to
// the next.
struct TilesInColumn {
  const float* data;
  std::int64_t count, line, place_step;
};

// Matrices (inputs, outputs) at the places of one column: at one place of a tile's columns, all places of its rows.
// They are place_step() apart. The outputs lie in panels, one after the other, as tile_products.h wants them.
struct PlaceMatrices {
  const Tiling& tiling;
  std::int64_t inputs, outputs;  // padded

  PlaceMatrices(const Tiling& tiling, std::int64_t inputs, std::int64_t outputs)
      : tiling(tiling), inputs(inputs), outputs(padded(outputs)) {}
  std::int64_t width() const { return std::min(panel, outputs); }
  std::int64_t panels() const { return (outputs + width() - 1) / width(); }
  std::int64_t panel_numbers() const { return inputs * width(); }
  std::int64_t place_step() const { return spread(panels() * panel_numbers()); }
  std::int64_t numbers() const { return tiling.rows.scheme->n() * place_step(); }

  // At each place: the products of the tiles, (tiles, inputs), with the matrix are written to to.products().
  void multiply(const TilesInColumn& tiles, const float* places, const FromTiles& to) const;
  // At each place: the sums over all tiles of input times output become the matrix, or are added to it.
  void sum(const TilesInColumn& in, const TilesInColumn& out, bool add, float* places) const;

  // Where the matrices begin in the taps.
  struct Begin {
    std::int64_t panel, input;
  };
  // Makes panel `p` of the matrices of `column`.
  void from_taps(const KernelTaps& taps, Begin begin, std::int64_t column, std::int64_t p, float* places) const;
  // The way back adds to the taps what the column gives, or writes it.
  void to_taps(const float* places, std::int64_t column, std::int64_t p, bool add, Begin begin,
               const KernelTaps& taps) const;

 private:
  template <class F>
  void for_each_vector(const KernelTaps& taps, Begin begin, std::int64_t p, F f) const;
};

}  // namespace tandem::cpu
