// Depthwise convolutions of stride 1: each channel has its own kernel and yields one output channel.
//
// Images are channels last, so the numbers of a row of pixels are adjacent. An output is a sum of products with numbers
// at distances of whole pixels. The lanes of a vector cover consecutive numbers of such a row, across pixels and
// channels, so all lanes are used for any number of channels. The assignment of kernel elements to lanes repeats after
// the least common multiple of the number of channels and the number of lanes. oneDNN assigns one channel to each lane,
// so with 2 channels most lanes are idle. Columns of padding are multiplied as zeros: an Inf in the weight or in the
// outputs' gradient becomes NaN there. An Inf in the input affects only the outputs whose windows contain it.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

class DepthwiseConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "sums along rows, for a kernel for each channel"; }
  bool pays() const override;
  void run(const ConvArrays& arrays) override;  // f32 or bf16, which is computed in f32
};

}  // namespace tandem::cpu
