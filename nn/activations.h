// The activation layers. Only PReLU has a parameter. autograd/functions/elementwise.h has the functions.
#pragma once

#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/in_place.h>
#include <tandem/core/ops/create.h>
#include <tandem/nn/module.h>

#include <tuple>

namespace tandem::nn {

// Options of the activations that can run in place:
//   nn::ReLU({.inplace = true}), nn::LeakyReLU(0.2, {.inplace = true})
struct ActivationOptions {
  bool inplace = false;  // the layer overwrites its input, which saves memory if nothing else needs the input
};

// A layer that can overwrite its input: `function` returns a new Tensor, `in_place` overwrites x. Both take, after x,
// the numbers that the layer stores.
template <auto function, auto in_place, class... Numbers>
class Activation : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    return std::apply([&](auto... n) { return inplace_ ? in_place(x, n...) : function(x, n...); }, numbers_);
  }
  std::string describe() const override {
    if constexpr (sizeof...(Numbers) == 0) return class_name();
    else if constexpr (sizeof...(Numbers) == 1) return describe_as(std::get<0>(numbers_));
    else return describe_as(std::get<0>(numbers_), ", ", std::get<1>(numbers_));
  }

  bool is_inplace() const { return inplace_; }

 protected:
  explicit Activation(const ActivationOptions& options, Numbers... numbers)
      : inplace_(options.inplace), numbers_(numbers...) {}

 private:
  bool inplace_;
  std::tuple<Numbers...> numbers_;
};

class ReLU : public Activation<relu, relu_> {
 public:
  explicit ReLU(const ActivationOptions& options = {}) : Activation(options) {}
};

class LeakyReLU : public Activation<leaky_relu, leaky_relu_, double> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01, const ActivationOptions& options = {})
      : Activation(options, negative_slope) {}
};

class ELU : public Activation<elu, elu_, double> {
 public:
  explicit ELU(double alpha = 1, const ActivationOptions& options = {}) : Activation(options, alpha) {}
};

class SiLU : public Activation<silu, silu_> {
 public:
  explicit SiLU(const ActivationOptions& options = {}) : Activation(options) {}
};

class Hardswish : public Activation<hardswish, hardswish_> {
 public:
  explicit Hardswish(const ActivationOptions& options = {}) : Activation(options) {}
};

class Hardsigmoid : public Activation<hardsigmoid, hardsigmoid_> {
 public:
  explicit Hardsigmoid(const ActivationOptions& options = {}) : Activation(options) {}
};

class Hardtanh : public Activation<hardtanh, hardtanh_, double, double> {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1, const ActivationOptions& options = {})
      : Activation(options, min_val, max_val) {}
};

class ReLU6 : public Activation<relu6, relu6_> {
 public:
  explicit ReLU6(const ActivationOptions& options = {}) : Activation(options) {}
};

class Threshold : public Activation<tandem::threshold, tandem::threshold_, double, double> {
 public:
  Threshold(double threshold, double value, const ActivationOptions& options = {})
      : Activation(options, threshold, value) {}
};

class SELU : public Activation<selu, selu_> {
 public:
  explicit SELU(const ActivationOptions& options = {}) : Activation(options) {}
};

class CELU : public Activation<celu, celu_, double> {
 public:
  explicit CELU(double alpha = 1, const ActivationOptions& options = {}) : Activation(options, alpha) {}
};

class Mish : public Activation<mish, mish_> {
 public:
  explicit Mish(const ActivationOptions& options = {}) : Activation(options) {}
};

class Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softsign(x); }
};

class LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};

class GLU : public Module {
 public:
  explicit GLU(std::int64_t dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return glu(x, dim_); }
  std::string describe() const override { return describe_as("dim ", dim_); }

 private:
  std::int64_t dim_;
};

// weight (num_parameters) has one element for all channels, or one per channel.
class PReLU : public Module {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25)
      : weight(add_parameter("weight", ops::full({num_parameters}, init))) {}
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string describe() const override { return describe_as(weight.numel()); }

  Tensor weight;
};

class GELU : public Module {
 public:
  explicit GELU(Approximate approximate = Approximate::none) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate_); }
  std::string describe() const override {
    return approximate_ == Approximate::tanh ? describe_as("tanh") : class_name();
  }

 private:
  Approximate approximate_;
};

class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }
  std::string describe() const override { return describe_as(beta_, ", ", threshold_); }

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
