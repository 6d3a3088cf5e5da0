// Convolutions of images with one channel by kernels of 5 x 5, such as the first layer for gray pictures.
//
// Rows are cut into tiles of F(4, 5) (cook_toom.h): four outputs need 8 products with each row of the kernel instead of
// 20. Along the columns, sums are direct: with one input channel, the transforms of tiles along both axes would cost
// more than they save. The lanes of a vector are rows of the image while the image is transformed, and output channels
// after that. docs/fast_convolution.md says how its time compares with oneDNN's.
//
// Results do not depend on the number of images and threads. The gradients of weight and bias are an exception, because
// each thread sums them over its images. For 100 small images, tests hold the RMS error relative to sums in f64 below
// 6e-7, and that of the gradient of the weight below 2e-6.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

// Computes the outputs and the gradient of the weight, but not the gradient of the input.
class OneChannelConv final : public ConvMethod {
 public:
  using ConvMethod::ConvMethod;
  std::string name() const override { return "tiles of F(4, 5) along rows, for one channel"; }
  // Returns true for stride 1, a kernel of 5 x 5, and as many outputs as fill whole vectors (16 with AVX-512, 8 with
  // AVX2), because every other method is slower there. Returns false if math_mode() wants exact convolutions.
  bool pays() const override;
  void run(const ConvArrays& arrays) override;  // f32 or bf16

 private:
  void convolve(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const;
  void sum_weight(const Array& x, const Array& grad_y, const Array& grad_weight,
                  const std::optional<Array>& grad_bias) const;
};

}  // namespace tandem::cpu
