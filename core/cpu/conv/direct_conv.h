// Convolutions with few output channels, as sums of rows.
//
// Images are channels last. The numbers of one image row that an output pixel reads are adjacent in memory, and so are
// the weights that multiply them. The lanes of a vector are several neighbours in such a row times 1, 2, 4 or 8 output
// channels, so all lanes are used. At the end, neighbours are added up, for several pixels at once. oneDNN's vectors
// contain only output channels, padded with channels that do not exist. On an Intel Xeon with AVX-512, sums of rows
// take 0.15 to 0.5 of oneDNN's time for one output of 8 inputs or more and kernels of 3 x 3 to 7 x 7, 0.5 to 1 for
// eight outputs, and 0.3 to 0.7 for 1 x 1 kernels. On processors without AVX-512, oneDNN also has too few independent
// sums to keep the multipliers busy with up to 16 outputs.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

// Computes the outputs and, if the stride is 1, the gradient of the input, which is then also a convolution.
class DirectConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "sums of rows, for few outputs"; }
  bool pays() const override;
  // Returns whether this method is also faster than tiles (cook_toom_conv.h).
  bool beats_tiles() const;
  void run(const ConvArrays& arrays) override;  // f32 or bf16, which is computed in f32
};

}  // namespace tandem::cpu
