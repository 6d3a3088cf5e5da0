// Depthwise convolutions of stride 1: each channel has a kernel of its own, and gives one output channel.
//
// Images are channels last, so that the numbers of a row of pixels lie together, and an output is a sum of products
// with the numbers that lie whole pixels away. The lanes of a vector run along such a row through pixels and channels
// alike: all of them are used for any number of channels. Which numbers of the kernel stand in the lanes repeats itself
// after the least common multiple of the channels and the lanes. oneDNN gives each lane a channel, and for 2 channels
// most lanes nothing to do. Columns of padding are multiplied as zeros: an Inf in the weight or in the outputs'
// gradient becomes NaN there. An Inf in the input spreads to nothing that does not see it.
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
