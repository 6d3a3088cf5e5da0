// 3 x 3 convolutions of stride 1 with 16 multiplications for four outputs instead of 36: F(2 x 2, 3 x 3) of Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//
// Additions turn tiles of 4 x 4 inputs into tiles of 4 x 4 sums. One place of all tiles is a matrix (tiles, channels):
// 16 products of these with those of the weight give tiles that additions turn into 2 x 2 outputs. Where the kernel is
// dilated, the rows and columns of a tile lie as far apart as its taps. Sums are rounded about as a plain convolution
// rounds them; what is not finite spreads over its tile and, in the weight's gradient, over all taps.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::cpu {

class Winograd {
 public:
  // x (N, C, H, W) and y (N, O, OH, OW): shapes of the convolution's input and output.
  Winograd(const Window& window, const Shape& x, const Shape& y) : window_(window), x_(x), y_(y) {}

  // Whether it can, and is faster than another way that multiplies with this share of the kernel.
  bool pays(DType dtype) const { return pays(dtype, y_, 1); }
  bool pays_for_input(DType dtype, double share) const { return pays(dtype, x_, share); }
  bool pays_for_weight(DType dtype, double share) const { return pays(dtype, y_, share); }

  // Arguments as in Backend; f32, images channels last.
  void forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;
  void grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;

 private:
  bool pays(DType dtype, const Shape& tiled, double share) const;

  const Window& window_;
  const Shape &x_, &y_;
};

}  // namespace tandem::cpu
