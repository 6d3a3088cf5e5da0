// Dropout layers set random elements to zero in training. In evaluation they change nothing.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {
    TANDEM_CHECK(p >= 0 && p <= 1, "Dropout: p must be from 0 to 1, got ", p);
  }
  Tensor forward(const Tensor& x) override { return dropout(x, p_, is_training()); }
  std::string describe() const override { return describe_as(p_); }

 private:
  double p_;
};

// Drops whole channels of x (N, C, ...).
class Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5) : p_(p) {
    TANDEM_CHECK(p >= 0 && p <= 1, "Dropout2d: p must be from 0 to 1, got ", p);
  }
  Tensor forward(const Tensor& x) override { return dropout2d(x, p_, is_training()); }
  std::string describe() const override { return describe_as(p_); }

 private:
  double p_;
};

}  // namespace tandem::nn
