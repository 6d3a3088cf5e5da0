// Depthwise convolutions of stride 1: each channel has a kernel of its own, and gives one output channel.
//
// Images are channels last, so that the numbers of a row of pixels lie together, and an output is a sum of products
// with the numbers that lie whole pixels away. The lanes of a vector run along such a row through pixels and channels
// alike: all of them are used for any number of channels. Which numbers of the kernel stand in the lanes repeats itself
// after the least common multiple of the channels and the lanes. oneDNN gives each lane a channel, and for 2 channels
// most lanes nothing to do. Columns of padding are multiplied as zeros: an Inf in the weight or in the outputs'
// gradient becomes NaN there. An Inf in the input spreads to nothing that does not see it.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::cpu {

class DepthwiseConv {
 public:
  // x (N, C, H, W) and y (N, C, OH, OW): shapes of the convolution's input and output.
  DepthwiseConv(const Window& window, const Shape& x, const Shape& y) : window_(window), x_(x), y_(y) {}

  // Whether this can compute it, and faster than oneDNN. It depends on the layer alone, not on the number of images.
  bool pays(DType dtype) const;
  bool pays_for_input(DType dtype) const;  // the gradient of the input
  bool pays_for_weight(DType dtype) const;

  // Arguments are as in Backend: f32 or bf16, which is computed in f32. Images are channels last.
  void forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;
  void grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;

 private:
  // The gradient of the input is a convolution too, of the kernel seen from behind.
  Window from_behind() const;

  const Window& window_;
  const Shape &x_, &y_;
};

}  // namespace tandem::cpu
