// The layers without parameters.
#pragma once

#include <tandem/autograd/ops.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};

// (N, ...) -> (N, everything else)
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
};

}  // namespace tandem::nn
