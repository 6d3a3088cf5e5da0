// Convolutions of stride 1 with fewer multiplications, by the schemes of cook_toom.h along both axes.
//
// The output is cut into tiles of m x m pixels. Each tile sees n x n = (m + r - 1) x (m + r - 1) pixels of the input,
// which transforms turn into n x n places. At each place the tiles are a matrix (tiles, inputs), which is multiplied
// with the weight's matrix (inputs, outputs) of that place; other transforms turn the products into pixels. Instead of
// m x m x r x r multiplications for a pair of channels a tile needs n x n. docs/fast_convolution.md derives it.
//
// Additions and memory pay for that, so what lies between the image that is read and the image that is written stays in
// the caches; cook_toom_orders.h says how. Where the kernel is dilated, the pixels that a tap skips belong to tiles of
// their own.
//
// Results are the same for every number of images and threads, but for the gradient of a small weight, which each
// thread sums over its blocks. An infinity or NaN in an input spreads over its tile and, in the gradient of the weight,
// over all taps.
//
// Errors grow with the tile and with the length of sums, up to the 128 inputs that are added up in one go. As the RMS
// over all outputs, relative to sums in f64, tests hold those of forward and both gradients for 32 channels and 6 small
// images below 4e-7 for F(2, 3), 1e-6 for F(4, 3), 3e-6 for F(6, 3), 7e-6 for F(7, 3), 1e-6 for F(2, 5), 3e-6 for
// F(4, 5), 6e-6 for F(5, 5), 4e-6 for F(2, 7) and 7e-6 for F(3, 7). Where one pass computes both gradients, that of the
// weight has up to 1.3 times the error; F(5, 5) along both axes is never used so. The choice takes a large tile along
// one axis only with a small one along the other, so that those of the outputs and of the gradient of the input stay
// below 6e-6 for any number of channels. In the gradient of the weight, sums over large batches add to them as in
// direct sums.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/conv/cook_toom_choice.h>
#include <tandem/core/cpu/conv/cook_toom_tiles.h>

namespace tandem::cpu {

// All passes, for layers of stride 1 without groups whose kernels have 1, 3, 5 or 7 rows and columns, other than 1 x 1.
// Never where math_mode() wants exact convolutions. Both gradients come from the same tiles of the outputs' gradient
// where each of them is computed by tiles, and the errors allow it.
class CookToomConv final : public ConvMethod {
 public:
  // With the best tiles for the layer, which pay where they are estimated to be faster than the fastest other method.
  explicit CookToomConv(const ConvLayer& layer);
  // With tiles of the caller's choice.
  CookToomConv(const ConvLayer& layer, const CookToomChoice& tiles) : ConvMethod(layer), tiles_(tiles) {}

  std::string name() const override { return tiles_.describe(); }
  std::string why_not() const override { return tiles_.rows ? tiles_.describe() : ""; }
  bool pays() const override { return tiles_.beats_direct(); }
  void run(const ConvArrays& arrays) override;  // f32 or 16-bit floats

 private:
  // Whether the tiles are those of the outputs' gradient, whose convolution with the rotated kernel is the gradient of
  // the input.
  bool reads_gradient() const {
    return layer_.pass == ConvPass::input_gradient || layer_.pass == ConvPass::both_gradients;
  }
  Tiling tiling() const;

  const CookToomChoice tiles_;
};

}  // namespace tandem::cpu
