// Convolutions of images with one channel by kernels of 5 x 5, such as the first layer for gray pictures.
//
// Rows are cut into tiles of F(4, 5) (cook_toom.h): four outputs need 8 products with each row of the kernel instead of
// 20. Along the columns sums are direct: with one input channel, tiles along both axes would have more work with their
// transforms than they save. The lanes of a vector are rows of the image while the image is transformed, and output
// channels after that. On one core of an AMD EPYC (Zen 4) 16 channels take 0.76 of oneDNN's time, 32 channels 0.55.
//
// Results do not depend on the number of images and threads, but for the gradients of weight and bias, which each
// thread sums over its images. As the RMS relative to sums in f64, tests hold the errors of 100 small images below
// 6e-7, and those of the gradient of the weight below 2e-6.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

// The outputs and the gradient of the weight.
class OneChannelConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "tiles of F(4, 5) along rows, for one channel"; }
  // For stride 1, a kernel of 5 x 5, and as many outputs as fill whole vectors (16 with AVX-512, 8 with AVX2): every
  // other method is slower there. Never where math_mode() wants exact convolutions.
  bool pays() const override;
  void run(const ConvArrays& arrays) override;  // f32 or bf16

 private:
  void convolve(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void sum_weight(const Array& x, const Array& grad_y, const Array& grad_weight,
                  const std::optional<Array>& grad_bias) const;
};

}  // namespace tandem::cpu
