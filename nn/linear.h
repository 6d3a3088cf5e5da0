#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

struct LinearOptions {
  bool bias = true;
};
using BilinearOptions = LinearOptions;

// y = x weight^T + bias. x (N, in) -> (N, out); weight (out, in), bias (out).
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
  std::string describe() const override;

  Tensor weight, bias;
};

// y_o is the sum over i and j of a_i weight_oij b_j, plus bias_o. a (..., in1), b (..., in2) -> (..., out);
// weight (out, in1, in2), bias (out).
class Bilinear : public Module {
 public:
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           const BilinearOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& a, const Tensor& b) { return bilinear(a, b, weight, bias); }
  Tensor operator()(const Tensor& a, const Tensor& b) {
    return called([&] { return forward(a, b); });
  }
  std::string describe() const override;

  Tensor weight, bias;
};

}  // namespace tandem::nn
