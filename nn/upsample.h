#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

using UpsampleOptions = InterpolateOptions;

// Resizes images (N, C, H, W): interpolate() as a module.
//   nn::Upsample({.scale_factor = 2, .mode = Interpolation::bilinear})
class Upsample : public Module {
 public:
  explicit Upsample(const UpsampleOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options_); }

 private:
  UpsampleOptions options_;
};

}  // namespace tandem::nn
