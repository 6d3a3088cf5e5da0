#pragma once

#include <tandem/autograd/ops.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

// y = x weight^T + bias. x (N, in) -> (N, out); weight (out, in), bias (out).
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
  std::string describe() const override;

  Tensor weight, bias;
};

}  // namespace tandem::nn
