// The activations: layers without parameters, but for PReLU. What they compute is in autograd/functions/elementwise.h.
// `inplace` writes over the input, which saves memory where nobody else needs it.
#pragma once

#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/in_place.h>
#include <tandem/core/ops/create.h>
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

class Hardsigmoid : public Module {
 public:
  explicit Hardsigmoid(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? hardsigmoid_(x) : hardsigmoid(x); }

 private:
  bool inplace_;
};

class Hardtanh : public Module {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1, bool inplace = false)
      : min_val_(min_val), max_val_(max_val), inplace_(inplace) {}
  Tensor forward(const Tensor& x) override {
    return inplace_ ? hardtanh_(x, min_val_, max_val_) : hardtanh(x, min_val_, max_val_);
  }

 private:
  double min_val_, max_val_;
  bool inplace_;
};

class ReLU6 : public Module {
 public:
  explicit ReLU6(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? relu6_(x) : relu6(x); }

 private:
  bool inplace_;
};

class Threshold : public Module {
 public:
  Threshold(double threshold, double value, bool inplace = false)
      : threshold_(threshold), value_(value), inplace_(inplace) {}
  Tensor forward(const Tensor& x) override {
    return inplace_ ? tandem::threshold_(x, threshold_, value_) : threshold(x, threshold_, value_);
  }

 private:
  double threshold_, value_;
  bool inplace_;
};

class SELU : public Module {
 public:
  explicit SELU(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? selu_(x) : selu(x); }

 private:
  bool inplace_;
};

class CELU : public Module {
 public:
  explicit CELU(double alpha = 1, bool inplace = false) : alpha_(alpha), inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? celu_(x, alpha_) : celu(x, alpha_); }

 private:
  double alpha_;
  bool inplace_;
};

class Mish : public Module {
 public:
  explicit Mish(bool inplace = false) : inplace_(inplace) {}
  Tensor forward(const Tensor& x) override { return inplace_ ? mish_(x) : mish(x); }

 private:
  bool inplace_;
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

 private:
  std::int64_t dim_;
};

// weight (num_parameters): one for all channels, or one for each.
class PReLU : public Module {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25)
      : weight(add_parameter("weight", ops::full({num_parameters}, init))) {}
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }

  Tensor weight;
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
