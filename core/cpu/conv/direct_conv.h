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

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

// The outputs, and the gradient of the input where the stride is 1: it is a convolution too.
class DirectConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "sums of rows, for few outputs"; }
  bool pays() const override;
  // Whether it is also faster than tiles (cook_toom_conv.h).
  bool beats_tiles() const;
  void run(const ConvArrays& arrays) override;  // f32 or bf16, which is computed in f32
};

}  // namespace tandem::cpu
