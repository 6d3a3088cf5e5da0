// Convolutions of stride 1 with fewer multiplications, by the schemes of cook_toom.h along both axes.
//
// The output is cut into tiles of m x m pixels. Each tile sees n x n = (m + r - 1) x (m + r - 1) pixels of the input,
// which transforms turn into n x n places. At each place the tiles are a matrix (tiles, channels), which is multiplied
// with the weight's matrix (channels, outputs) of that place; other transforms turn the products into pixels. Instead of
// m x m x r x r multiplications for a pair of channels a tile needs n x n.
//
// Additions and memory pay for that, so everything between the image that is read and the image that is written stays
// in the caches: a thread takes a block of some rows of tiles from the first transform to the last. Where the kernel is
// dilated, the rows and columns that the taps skip are images of their own.
//
// Results do not depend on the number of images or threads, but for the gradient of the weight, whose sums over the
// pixels are summed by thread. An infinity or NaN spreads over its tile and, in the gradient of the weight, over all
// taps. Errors grow with the tile; the tests hold those of the RMS, beside f64, below these: F(2, 3) 3e-7, F(4, 3) 8e-7,
// F(6, 3) 4e-6, F(2, 5) 8e-7, F(4, 5) 3e-6, F(5, 5) 6e-6.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::cpu {

struct CookToomScheme;

class CookToomConv {
 public:
  // x (N, C, H, W) and y (N, O, OH, OW): shapes of the convolution's input and output.
  CookToomConv(const Window& window, const Shape& x, const Shape& y);

  // Whether this can compute it: stride 1, no groups, f32, and a kernel for which there are schemes.
  bool can(DType dtype) const;

  // Arguments are as in Backend. All arrays are f32, and images are channels last.
  void forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;
  void grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;

 private:
  const Window& window_;
  const Shape &x_, &y_;
  const CookToomScheme *rows_ = nullptr, *columns_ = nullptr;
};

}  // namespace tandem::cpu
