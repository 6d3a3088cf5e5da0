// Convolutions of stride 1 with fewer multiplications, by the schemes of cook_toom.h along both axes.
//
// The output is cut into tiles of m x m pixels. Each tile sees n x n = (m + r - 1) x (m + r - 1) pixels of the input,
// which transforms turn into n x n places. At each place the tiles are a matrix (tiles, inputs), which is multiplied
// with the weight's matrix (inputs, outputs) of that place; other transforms turn the products into pixels. Instead of
// m x m x r x r multiplications for a pair of channels a tile needs n x n. docs/fast_convolution.md derives it.
//
// The price is more additions and memory, so the intermediate results between the two images stay in the caches
// (cook_toom_orders.h says how). If the kernel is dilated, the pixels that a tap skips belong to separate tiles.
//
// Results are the same for every number of images and threads. The gradient of a small weight is an exception, because
// each thread sums it over its blocks. An infinity or NaN in an input spreads over its tile and, in the gradient of the
// weight, over all taps.
//
// Errors grow with the tile and with the length of sums, up to the 128 inputs that are added up in one pass. For
// forward and both gradients, with 32 channels and 6 small images, tests hold the RMS error relative to sums in f64
// below 4e-7 for F(2, 3), 1e-6 for F(4, 3), 3e-6 for F(6, 3), 7e-6 for F(7, 3), 1e-6 for F(2, 5), 3e-6 for F(4, 5),
// 6e-6 for F(5, 5), 4e-6 for F(2, 7) and 7e-6 for F(3, 7). If one pass computes both gradients, that of the weight has
// up to 1.3 times the error, so F(5, 5) along both axes is never used for that. A large tile along one axis is combined
// only with a small one along the other. The errors of the outputs and of the gradient of the input then stay below
// 6e-6 for any number of channels. In the gradient of the weight, errors also grow with the batch, as in direct sums.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/conv/cook_toom_choice.h>
#include <tandem/core/cpu/conv/cook_toom_tiles.h>

namespace tandem::cpu {

// Computes all passes, for layers of stride 1 without groups whose kernels have 1, 3, 5 or 7 rows and columns, except 1
// x 1. It is never chosen if math_mode() wants exact convolutions. If tiles compute each of the two gradients and the
// errors allow it, both gradients come from the same tiles of the outputs' gradient.
class CookToomConv final : public ConvMethod {
 public:
  // Uses the best tiles for the layer. They pay if they are estimated to be faster than the fastest other method.
  explicit CookToomConv(const ConvLayer& layer);
  // Uses the given tiles.
  CookToomConv(const ConvLayer& layer, const CookToomChoice& tiles) : ConvMethod(layer), tiles_(tiles) {}

  std::string name() const override { return tiles_.describe(); }
  std::string why_not() const override { return tiles_.rows ? tiles_.describe() : ""; }
  bool pays() const override { return tiles_.beats_direct(); }
  void run(const ConvArrays& arrays) override;  // f32 or 16-bit floats

 private:
  // Returns whether the tiles are those of the outputs' gradient. Its convolution with the rotated kernel is the
  // gradient of the input.
  bool reads_gradient() const {
    return layer_.pass == ConvPass::input_gradient || layer_.pass == ConvPass::both_gradients;
  }
  Tiling tiling() const;

  const CookToomChoice tiles_;
};

}  // namespace tandem::cpu
