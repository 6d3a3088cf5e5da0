// Softmax along a dimension and its logarithm, as layers.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim_); }
  std::string describe() const override { return describe_as("dim ", dim_); }

 private:
  std::int64_t dim_;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim_); }
  std::string describe() const override { return describe_as("dim ", dim_); }

 private:
  std::int64_t dim_;
};

}  // namespace tandem::nn
