// Convolutions. Weights and biases start as PyTorch's do for the same seed.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <concepts>

namespace tandem::nn {

// Zeros on both sides: how many, or by PyTorch's names "valid" (none) and "same" (so many that with stride 1 the output
// has the input's size; an Error where that is not the same number on both sides, as for an even kernel).
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

struct Conv2dOptions {
  Extent kernel_size;
  Extent stride = 1;
  Padding padding = 0;
  Extent dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// x (N, in, H, W) -> (N, out, OH, OW); weight (out, in / groups, kernel h, kernel w), bias (out).
//   nn::Conv2d(1, 16, {.kernel_size = 5, .padding = 2})
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options);
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, options_); }
  std::string describe() const override;

  Tensor weight, bias;

 private:
  ConvOptions options_;
};

struct Conv1dOptions {
  std::int64_t kernel_size;
  std::int64_t stride = 1;
  Padding padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// x (N, in, L) -> (N, out, OL); weight (out, in / groups, kernel), bias (out).
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv1dOptions& options);
  Tensor forward(const Tensor& x) override { return conv1d(x, weight, bias, options_); }
  std::string describe() const override;

  Tensor weight, bias;

 private:
  ConvOptions options_;
};

struct ConvTranspose2dOptions {
  Extent kernel_size;
  Extent stride = 1;
  Extent padding = 0;
  Extent output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Extent dilation = 1;
};

// x (N, in, H, W) -> (N, out, OH, OW); weight (in, out / groups, kernel h, kernel w), bias (out).
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose2dOptions& options);
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, options_); }
  std::string describe() const override;

  Tensor weight, bias;

 private:
  ConvTransposeOptions options_;
};

struct ConvTranspose1dOptions {
  std::int64_t kernel_size;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  std::int64_t dilation = 1;
};

// x (N, in, L) -> (N, out, OL); weight (in, out / groups, kernel), bias (out).
class ConvTranspose1d : public Module {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose1dOptions& options);
  Tensor forward(const Tensor& x) override { return conv_transpose1d(x, weight, bias, options_); }
  std::string describe() const override;

  Tensor weight, bias;

 private:
  ConvTransposeOptions options_;
};

}  // namespace tandem::nn
