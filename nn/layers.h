// Layers without parameters. The activations: activations.h.
#pragma once

#include <tandem/autograd/ops.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/module.h>

#include <optional>

namespace tandem::nn {

// The maximum of each window, by default of windows side by side. (N, C, H, W) -> (N, C, OH, OW).
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent kernel_size, std::optional<Extent> stride = std::nullopt, Extent padding = 0)
      : window{kernel_size, stride.value_or(kernel_size), padding, 1} {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, window); }

  const Window window;
};

// (N, ...) -> (N, everything else)
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
};

}  // namespace tandem::nn
