// Residual networks: He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385. Names, initial
// values, their drawing order, and outputs match torchvision's. The stride of a bottleneck is in its 3 x 3 convolution.
#pragma once

#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>

#include <array>

namespace tandem::nn::models {

struct ResNetOptions {
  int depth = 50;  // 18, 34, 50, 101 or 152
  // Whether layers 2, 3 and 4 keep the resolution and dilate the following convolutions instead. In torchvision only
  // depths from 50 on have this option; here 18 and 34 have it too.
  std::array<bool, 3> replace_stride_with_dilation = {};
};

// A ResNet without its classifier: images (N, 3, H, W) -> features (N, channels(), H / 32, W / 32). Dilated layers give
// larger features.
class ResNetFeatures : public Module {
 public:
  // Also draws the weights of the classifier and discards them. The next module then gets the same numbers as in
  // torchvision.
  explicit ResNetFeatures(const ResNetOptions& options);

  struct Stages {
    Tensor layer3, layer4;
  };
  Stages stages(const Tensor& x);
  Tensor forward(const Tensor& x) override { return stages(x).layer4; }
  std::int64_t channels() const { return channels_; }  // the channels of layer 4
  std::int64_t layer3_channels() const { return channels_ / 2; }

 protected:
  struct Undrawn {};
  ResNetFeatures(const ResNetOptions& options, Undrawn);
  // Draws the weights that torchvision draws after it has constructed all modules.
  void draw_convolutions();

 private:
  Conv2d* conv1_;
  BatchNorm2d* bn1_;
  std::array<Sequential*, 4> layers_;
  std::int64_t channels_ = 0;
};

// images (N, 3, H, W) -> logits (N, classes)
class ResNet : public ResNetFeatures {
 public:
  explicit ResNet(const ResNetOptions& options, std::int64_t classes = 1000);
  Tensor forward(const Tensor& x) override;

 private:
  Linear* fc_;
};

}  // namespace tandem::nn::models
