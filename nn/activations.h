// The activations: layers without parameters. What they compute is in autograd/ops_elementwise.h. `inplace` writes over the
// input, which saves memory where nobody else needs it.
#pragma once

#include <tandem/autograd/ops_elementwise.h>
#include <tandem/autograd/ops_in_place.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

class ReLU : public Module {
 public:
  explicit ReLU(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? relu_(x) : relu(x); }

 private:
  bool inplace_;
};

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01, bool inplace = false)
      : negative_slope_(negative_slope), inplace_(inplace) {}
  Tensor forward(const Tensor& x) override {
    return inplace_ ? leaky_relu_(x, negative_slope_) : leaky_relu(x, negative_slope_);
  }

 private:
  double negative_slope_;
  bool inplace_;
};

class ELU : public Module {
 public:
  explicit ELU(double alpha = 1, bool inplace = false) : alpha_(alpha), inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? elu_(x, alpha_) : elu(x, alpha_); }

 private:
  double alpha_;
  bool inplace_;
};

class SiLU : public Module {
 public:
  explicit SiLU(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? silu_(x) : silu(x); }

 private:
  bool inplace_;
};

class Hardswish : public Module {
 public:
  explicit Hardswish(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? hardswish_(x) : hardswish(x); }

 private:
  bool inplace_;
};

class GELU : public Module {
 public:
  explicit GELU(Approximate approximate = Approximate::none) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate_); }

 private:
  Approximate approximate_;
};

class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }

 private:
  double beta_, threshold_;
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

}  // namespace tandem::nn
