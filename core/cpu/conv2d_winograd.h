// 3 x 3 convolutions of stride 1 with 16 multiplications for four outputs instead of 36: F(2 x 2, 3 x 3) of Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//
// Additions turn tiles of 4 x 4 inputs into tiles of 4 x 4 sums. Each of the 16 places of a tile, taken from all tiles,
// is a matrix (tiles, channels). 16 products of these matrices with those of the weight give 4 x 4 products, which
// additions turn into tiles of 2 x 2 outputs. When the kernel is dilated, the rows and columns of a tile lie as far
// apart as the taps of the kernel. Sums are rounded about as much as those of a plain convolution. An infinity or NaN
// spreads over its whole tile and, in the gradient of the weight, over all taps.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::cpu {

class Winograd {
 public:
  // x (N, C, H, W) and y (N, O, OH, OW): shapes of the convolution's input and output.
  Winograd(const Window& window, const Shape& x, const Shape& y) : window_(window), x_(x), y_(y) {}

  // Whether Winograd can compute the convolution or its gradient, and faster than the other way to do so. `share` is
  // the part of the multiplications with the kernel that the other way does: 1 for oneDNN, and less for ConvTaps, which
  // leaves out padding.
  bool pays(DType dtype) const { return pays(dtype, y_, 1); }
  bool pays_for_input(DType dtype, double share) const { return pays(dtype, x_, share); }
  bool pays_for_weight(DType dtype, double share) const { return pays(dtype, y_, share); }

  // Arguments are as in Backend. All arrays are f32, and images are channels last.
  void forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;
  void grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;

 private:
  bool pays(DType dtype, const Shape& tiled, double share) const;

  const Window& window_;
  const Shape &x_, &y_;
};

}  // namespace tandem::cpu
