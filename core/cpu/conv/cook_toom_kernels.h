// Transforms a convolution's weight to places, panel by panel of outputs, and transforms the gradient back.
#pragma once

#include <tandem/core/cpu/conv/cook_toom_tiles.h>
#include <tandem/core/cpu/conv/tap_panels.h>

#include <algorithm>

namespace tandem::cpu {

// The tiles of an image at all places of one column: `count` rows of `line` numbers each. The places are place_step
// numbers apart.
struct TilesInColumn {
  const float* data;
  std::int64_t count, line, place_step;
};

// The weight's matrices (inputs, outputs) for the places of one column of a tile: one matrix for each place. The
// matrices are place_step() numbers apart. The outputs are stored in consecutive panels, as tile_products.h requires.
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

  // At each place, multiplies the tiles, (tiles, inputs), by the matrix. Writes the products to to.products(column), or
  // adds them if `add`.
  void multiply(const TilesInColumn& tiles, const float* places, bool add, const FromTiles& to,
                std::int64_t column) const;
  // At each place, computes the matrix as the sum over all tiles of input times output, or adds that sum to it.
  void sum(const TilesInColumn& in, const TilesInColumn& out, bool add, float* places) const;

  // Computes panel `p` of the matrices of `column`. The first input is number `input` of the taps.
  void from_taps(const TapPanels& taps, std::int64_t input, std::int64_t column, std::int64_t p, float* places) const;
  // The reverse: adds the column's contribution to the taps.
  void to_taps(const float* places, std::int64_t input, std::int64_t column, std::int64_t p,
               const TapPanels& taps) const;
};

}  // namespace tandem::cpu
