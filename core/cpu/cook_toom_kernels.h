// The weight of a convolution at the places of its tiles, and the way back for its gradient.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/cook_toom_tiles.h>

namespace tandem::cpu {

// The matrices (inputs, outputs) of the places, place_step() apart: of the columns' place 0 all places of the rows, and
// so on. The outputs lie in panels of width(), one after the other.
struct PlaceMatrices {
  std::int64_t inputs, outputs;
  std::int64_t width() const { return std::min(panel, padded(outputs)); }
  std::int64_t panels() const { return (outputs + width() - 1) / width(); }
  std::int64_t place_step() const { return spread(panels() * width() * inputs); }
};

// Of a weight (outputs, inputs, kernel h, kernel w), f32 and contiguous. Where `turned`, the weight is (inputs,
// outputs, kernel h, kernel w), and its kernels are turned by half a turn, as the gradient of the input sees them.
Array weight_to_places(const Tiling& tiling, const PlaceMatrices& matrices, const Array& weight, bool turned);

// The weight (outputs, inputs, kernel h, kernel w) that gradients of its matrices add up to. `grads` are matrices
// (inputs, padded outputs), row-major and place_step apart.
Array weight_from_places(const Tiling& tiling, std::int64_t inputs, std::int64_t outputs, const float* grads,
                         std::int64_t place_step);

}  // namespace tandem::cpu
