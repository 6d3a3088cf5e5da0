// Convolutions. The initial weights and biases are PyTorch's for the same seed.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <concepts>

namespace tandem::nn {

// The number of zeros on both sides of the input, or one of PyTorch's names. "valid" means no padding. "same" pads the
// input so that, with stride 1, the output has the same size. Throws an Error if "same" needs different numbers on the
// two sides, as for an even kernel.
class Padding {
 public:
  template <std::integral T>
  Padding(T both) : extent_(both) {}                          // NOLINT: .padding = 2
  Padding(std::int64_t h, std::int64_t w) : extent_(h, w) {}  // .padding = {1, 2}
  Padding(Extent extent) : extent_(extent) {}                 // NOLINT
  Padding(const char* name);                                  // NOLINT: .padding = "same"
  Extent of(Extent kernel, Extent stride, Extent dilation) const;

 private:
  Extent extent_ = 0;
  bool same_ = false;
};

template <class Size>
struct ConvolutionOptions {
  Size stride = 1;
  Padding padding = 0;
  Size dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};
using Conv2dOptions = ConvolutionOptions<Extent>;
using Conv1dOptions = ConvolutionOptions<std::int64_t>;

template <class Size>
struct TransposedConvolutionOptions {
  Size stride = 1;
  Size padding = 0;
  Size output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Size dilation = 1;
};
using ConvTranspose2dOptions = TransposedConvolutionOptions<Extent>;
using ConvTranspose1dOptions = TransposedConvolutionOptions<std::int64_t>;

// The common parts of the four convolutions: weight, bias and description. `Options` is ConvOptions, or
// ConvTransposeOptions for a transposed convolution, whose weight has its input channels first. The options include the
// number of groups.
template <class Options>
class Convolution : public Module {
 public:
  std::string describe() const override;

  Tensor weight, bias;

 protected:
  // Errors show `name`. `kernel` is (K) or (KH, KW).
  Convolution(const char* name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
              bool with_bias, const Options& options);

  Options options_;
};

// x (N, in, H, W) -> (N, out, OH, OW); weight (out, in / groups, KH, KW), bias (out).
//   nn::Conv2d(1, 16, 5, {.padding = 2})
class Conv2d : public Convolution<ConvOptions> {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent kernel_size, const Conv2dOptions& options = {});
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, options_); }
};

// x (N, in, L) -> (N, out, OL); weight (out, in / groups, K), bias (out).
class Conv1d : public Convolution<ConvOptions> {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         const Conv1dOptions& options = {});
  Tensor forward(const Tensor& x) override { return conv1d(x, weight, bias, options_); }
};

// x (N, in, H, W) -> (N, out, OH, OW); weight (in, out / groups, KH, KW), bias (out).
class ConvTranspose2d : public Convolution<ConvTransposeOptions> {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Extent kernel_size,
                  const ConvTranspose2dOptions& options = {});
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, options_); }
};

// x (N, in, L) -> (N, out, OL); weight (in, out / groups, K), bias (out).
class ConvTranspose1d : public Convolution<ConvTransposeOptions> {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  const ConvTranspose1dOptions& options = {});
  Tensor forward(const Tensor& x) override { return conv_transpose1d(x, weight, bias, options_); }
};

}  // namespace tandem::nn
