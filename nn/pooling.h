// Pooling layers: the operations of autograd/functions/pooling.h as modules.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <string>

namespace tandem::nn {

// The common parts of the four layers with a window. By default the windows are adjacent.
template <class Size, class Options, Tensor (*pool)(const Tensor&, Extent, const Options&)>
class WindowPool : public Module {
 public:
  explicit WindowPool(Size kernel_size, const Options& options = {}) : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override { return pool(x, kernel_size_, options_); }
  // For example "MaxPool2d(kernel 2x2, stride 2x2)".
  std::string describe() const override {
    if (options_.padding == Extent(0)) return describe_as("kernel ", kernel_size_, ", stride ", stride());
    return describe_as("kernel ", kernel_size_, ", stride ", stride(), ", padding ", options_.padding);
  }

  Extent kernel_size() const { return kernel_size_; }
  Extent stride() const { return options_.stride.value_or(kernel_size_); }
  const Options& options() const { return options_; }

 private:
  Extent kernel_size_;
  Options options_;
};

// The maximum of each window. (N, C, H, W) -> (N, C, OH, OW).
//   nn::MaxPool2d(3, {.stride = 2, .padding = 1})
class MaxPool2d : public WindowPool<Extent, MaxPool2dOptions, max_pool2d> {
 public:
  using WindowPool::WindowPool;
};

// (N, C, L) -> (N, C, OL)
class MaxPool1d : public WindowPool<std::int64_t, MaxPool1dOptions, max_pool1d> {
 public:
  using WindowPool::WindowPool;
};

// The average of each window. (N, C, H, W) -> (N, C, OH, OW).
class AvgPool2d : public WindowPool<Extent, AvgPool2dOptions, avg_pool2d> {
 public:
  using WindowPool::WindowPool;
};

// (N, C, L) -> (N, C, OL)
class AvgPool1d : public WindowPool<std::int64_t, AvgPool1dOptions, avg_pool1d> {
 public:
  using WindowPool::WindowPool;
};

// Averages to a given size, regardless of the input's size. keep_size in place of a number keeps the size of the input.
// (N, C, H, W) -> (N, C, OH, OW), where output_size is OH x OW.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Extent output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, output_size_); }
  std::string describe() const override { return describe_as("to ", output_size_); }

 private:
  Extent output_size_;
};

class AdaptiveAvgPool1d : public Module {
 public:
  explicit AdaptiveAvgPool1d(std::int64_t output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool1d(x, output_size_); }
  std::string describe() const override { return describe_as("to ", output_size_); }

 private:
  std::int64_t output_size_;
};

class AdaptiveMaxPool2d : public Module {
 public:
  explicit AdaptiveMaxPool2d(Extent output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool2d(x, output_size_); }
  std::string describe() const override { return describe_as("to ", output_size_); }

 private:
  Extent output_size_;
};

}  // namespace tandem::nn
