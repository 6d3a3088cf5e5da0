// Convolutions that give few channels, as sums of rows.
//
// Images are channels last. What an output pixel sees of one row of the image lies together in memory, and so does the
// weight that it is multiplied with. The lanes of a vector are some neighbours in such a row times 1, 2, 4 or 8 output
// channels, so that all lanes have work; in the end neighbours are added up, for several pixels at once. oneDNN's
// vectors are output channels alone, filled up with some that do not exist. On an Intel Xeon with AVX-512, sums of rows
// take 0.15 to 0.5 of oneDNN's time for one output of 8 inputs or more and kernels of 3 x 3 to 7 x 7, 0.5 to 1 for
// eight outputs, and 0.3 to 0.7 for 1 x 1 kernels. Where the processor has no AVX-512, oneDNN also has too few sums
// side by side to keep the multipliers busy with up to 16 outputs.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <optional>

namespace tandem::cpu {

class DirectConv {
 public:
  // x (N, C, H, W) and y (N, O, OH, OW): shapes of the convolution's input and output.
  DirectConv(const Window& window, const Shape& x, const Shape& y) : window_(window), x_(x), y_(y) {}

  // Whether this can compute it, and faster than oneDNN. It depends on the layer alone, not on the number of images.
  bool pays(DType dtype) const;
  bool pays_for_input(DType dtype) const;  // the gradient of the input
  // Whether the outputs are computed faster than by tiles (cook_toom_conv.h), too.
  bool beats_tiles(DType dtype) const;

  // Arguments are as in Backend: f32 or bf16, which is computed in f32. Images are channels last.
  void forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;

 private:
  // The gradient of the input of a convolution of stride 1 is a convolution too, of the kernel seen from behind.
  Window from_behind() const;

  const Window& window_;
  const Shape &x_, &y_;
};

}  // namespace tandem::cpu
