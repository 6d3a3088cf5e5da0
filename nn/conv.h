#pragma once

#include <tandem/autograd/ops.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

struct Conv2dOptions {
  Extent kernel_size;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;
  bool bias = true;
};

// x (N, in, H, W) -> (N, out, OH, OW); weight (out, in, kernel h, kernel w), bias (out).
//   nn::Conv2d(1, 16, {.kernel_size = 5, .padding = 2})
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options);
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, window_); }
  std::string describe() const override;

  Tensor weight, bias;

 private:
  Window window_;
};

}  // namespace tandem::nn
