// Residual networks: He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385. The names, the
// initial values, the order in which they are drawn, and the outputs are torchvision's. The stride of a bottleneck is
// at its 3 x 3 convolution.
#pragma once

#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>

#include <array>

namespace tandem::nn::models {

struct ResNetOptions {
  int depth = 50;  // 18, 34, 50, 101 or 152
  // For layers 2, 3 and 4: whether the layer keeps the resolution, and dilates the convolutions that follow instead. In
  // torchvision only depths from 50 on have this option; here 18 and 34 have it too.
  std::array<bool, 3> replace_stride_with_dilation = {};
};

// A ResNet without its classifier: images (N, 3, H, W) -> features (N, channels(), H / 32, W / 32). The features are
// larger when layers are dilated.
class ResNetFeatures : public Module {
 public:
  // Draws the weights of the classifier too, and drops them. So the module that is made next gets torchvision's
  // numbers.
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
  // Draws the weights that torchvision draws after all modules are made.
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
