// The weight of a convolution at the places of its tiles, and the way back for its gradient: panel by panel of outputs.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/conv/cook_toom_tiles.h>
#include <tandem/core/formulas/window.h>

#include <algorithm>

namespace tandem::cpu {

// A weight (outputs, inputs, kernel h, kernel w), f32 and row-major. Where `turned`, it is (inputs, outputs, kernel h,
// kernel w), with kernels turned by half a turn, as the gradient of the input sees them.
struct Kernels {
  Array weight;
  bool turned;

  std::int64_t taps() const { return weight.dim(2) * weight.dim(3); }
};

// The taps of some outputs and inputs, with the outputs innermost, in panels: (panels, inputs, kernel h * kernel w,
// width). The last panel has zeros behind its outputs.
class TapPanels {
 public:
  struct Range {
    std::int64_t first, count;
  };
  TapPanels(const Kernels& kernels, Range outputs, Range inputs);

  std::int64_t panels() const { return (outputs_.count + width_ - 1) / width_; }
  std::int64_t numbers() const { return panels() * panel_numbers(); }
  void use(float* memory) { memory_ = memory; }
  // Brings a panel from the weight into memory, and back; or makes it zero.
  void read(std::int64_t panel) const;
  void write(std::int64_t panel) const;
  void clear(std::int64_t panel) const { std::fill_n(at(panel, 0), panel_numbers(), 0.0f); }

  bool turned() const { return kernels_.turned; }
  Extent kernel() const { return {kernels_.weight.dim(2), kernels_.weight.dim(3)}; }
  std::int64_t width() const { return width_; }
  float* at(std::int64_t panel, std::int64_t input) const {
    return memory_ + panel * panel_numbers() + input * taps_ * width_;
  }

 private:
  std::int64_t panel_numbers() const { return inputs_.count * taps_ * width_; }
  Range outputs_of(std::int64_t panel) const {
    const std::int64_t first = panel * width_;
    return {outputs_.first + first, std::min(width_, outputs_.count - first)};
  }
  std::int64_t row() const { return kernels_.weight.strides()[0]; }  // numbers from one row of the weight to the next

  Kernels kernels_;
  Range outputs_, inputs_;
  std::int64_t taps_, width_;
  float* memory_ = nullptr;
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
