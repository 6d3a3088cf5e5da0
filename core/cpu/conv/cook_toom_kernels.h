// The weight of a convolution at the places of its tiles, and the way back for its gradient: panel by panel of outputs.
#pragma once

#include <tandem/core/cpu/conv/cook_toom_tiles.h>
#include <tandem/core/cpu/conv/tap_panels.h>

#include <algorithm>

namespace tandem::cpu {

// Tiles of an image at the places of one column: `count` rows of `line` numbers each, and place_step from one place to
// the next.
struct TilesInColumn {
  const float* data;
  std::int64_t count, line, place_step;
};

// The weight's matrices (inputs, outputs) for one place of the rows of a tile: there is one matrix for each place of
// the columns. They are place_step() apart. The outputs lie in panels, one after the other, as tile_products.h wants
// them.
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

  // At each place: the products of the tiles, (tiles, inputs), with the matrix are written to to.products(column), or
  // added to what is there.
  void multiply(const TilesInColumn& tiles, const float* places, bool add, const FromTiles& to,
                std::int64_t column) const;
  // At each place: the sums over all tiles of input times output become the matrix, or are added to it.
  void sum(const TilesInColumn& in, const TilesInColumn& out, bool add, float* places) const;

  // Makes panel `p` of the matrices of `column`. The first input is number `input` of the taps.
  void from_taps(const TapPanels& taps, std::int64_t input, std::int64_t column, std::int64_t p, float* places) const;
  // The way back: adds to the taps what the column gives.
  void to_taps(const float* places, std::int64_t input, std::int64_t column, std::int64_t p,
               const TapPanels& taps) const;
};

}  // namespace tandem::cpu
