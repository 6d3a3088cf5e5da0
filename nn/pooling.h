// Pooling layers: the operations of autograd/functions/pooling.h as modules.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <optional>

namespace tandem::nn {

// The maximum of each window. By default the windows stand side by side. (N, C, H, W) -> (N, C, OH, OW).
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent kernel_size, std::optional<Extent> stride = std::nullopt, Extent padding = 0,
                     Extent dilation = 1, bool ceil_mode = false)
      : options{kernel_size, stride.value_or(kernel_size), padding, dilation, ceil_mode} {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options); }
  std::string describe() const override;

  const MaxPoolOptions options;
};

// (N, C, L) -> (N, C, OL)
class MaxPool1d : public Module {
 public:
  explicit MaxPool1d(std::int64_t kernel_size, std::optional<std::int64_t> stride = std::nullopt,
                     std::int64_t padding = 0, std::int64_t dilation = 1, bool ceil_mode = false)
      : options{kernel_size, stride.value_or(kernel_size), padding, dilation, ceil_mode} {}
  Tensor forward(const Tensor& x) override { return max_pool1d(x, options); }
  std::string describe() const override;

  const MaxPoolOptions options;
};

// The average of each window. By default the windows stand side by side. (N, C, H, W) -> (N, C, OH, OW).
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Extent kernel_size, std::optional<Extent> stride = std::nullopt, Extent padding = 0,
                     bool ceil_mode = false, bool count_include_pad = true,
                     std::optional<std::int64_t> divisor_override = std::nullopt)
      : options{kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override} {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options); }
  std::string describe() const override;

  const AvgPoolOptions options;
};

// (N, C, L) -> (N, C, OL)
class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(std::int64_t kernel_size, std::optional<std::int64_t> stride = std::nullopt,
                     std::int64_t padding = 0, bool ceil_mode = false, bool count_include_pad = true)
      : options{kernel_size, stride.value_or(kernel_size), padding, ceil_mode, count_include_pad} {}
  Tensor forward(const Tensor& x) override { return avg_pool1d(x, options); }
  std::string describe() const override;

  const AvgPoolOptions options;
};

// Averages to a given size, whatever size the input has. keep_size in place of a number keeps the size of the input.
// (N, C, H, W) -> (N, C, OH, OW), where output_size is OH x OW.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Extent output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, output_size); }
  std::string describe() const override { return describe_as("to ", output_size); }

  const Extent output_size;
};

class AdaptiveAvgPool1d : public Module {
 public:
  explicit AdaptiveAvgPool1d(std::int64_t output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool1d(x, output_size); }
  std::string describe() const override { return describe_as("to ", output_size); }

  const std::int64_t output_size;
};

class AdaptiveMaxPool2d : public Module {
 public:
  explicit AdaptiveMaxPool2d(Extent output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool2d(x, output_size); }
  std::string describe() const override { return describe_as("to ", output_size); }

  const Extent output_size;
};

}  // namespace tandem::nn
