// Layers without parameters.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

// Merges the dimensions from start_dim to end_dim into one. By default (N, C, H, W) -> (N, C * H * W).
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_dim_(start_dim), end_dim_(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_dim_, end_dim_); }

 private:
  std::int64_t start_dim_, end_dim_;
};

// Splits the dimension `dim` into dimensions of `sizes`, of which one may be -1.
class Unflatten : public Module {
 public:
  Unflatten(std::int64_t dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {}
  Tensor forward(const Tensor& x) override { return unflatten(x, dim_, sizes_); }

 private:
  std::int64_t dim_;
  Shape sizes_;
};

class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace tandem::nn
