// The plain method, which computes every layer. It copies the windows of an image to the rows of a matrix (im2col), and
// multiplies that matrix. It computes in f64 for f64 images, and in f32 otherwise.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

class PlainConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "product with windows: no faster method computes this layer"; }
  bool pays() const override { return layer_.pass != ConvPass::both_gradients; }
  void run(const ConvArrays& arrays) override;
};

}  // namespace tandem::cpu
