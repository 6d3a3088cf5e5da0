// Normalisations of one sample at a time.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <optional>

namespace tandem::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // whether the layer has a weight
  bool bias = true;                // whether a layer with a weight has a bias
};

// Normalises over the last dimensions of x, which have `shape`. weight and bias have `shape` too.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& options = {});
  Tensor forward(const Tensor& x) override { return layer_norm(x, shape_, weight, bias, eps_); }
  std::string describe() const override;

  Tensor weight, bias;  // undefined if the options disable them

 private:
  Shape shape_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  // default: see rms_norm()
  bool elementwise_affine = true;
};

// Divides x by the root of its mean square over the last dimensions, which have `shape`. weight has `shape` too.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& shape, const RMSNormOptions& options = {});
  Tensor forward(const Tensor& x) override { return rms_norm(x, shape_, weight, eps_); }
  std::string describe() const override;

  Tensor weight;

 private:
  Shape shape_;
  std::optional<double> eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};

// Normalises each group of channels of each sample of x (N, C, ...). weight (C), bias (C).
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x) override { return group_norm(x, groups_, weight, bias, eps_); }
  std::string describe() const override { return describe_as(groups_, " groups, ", channels_); }

  Tensor weight, bias;

 private:
  std::int64_t groups_, channels_;
  double eps_;
};

struct InstanceNorm2dOptions {
  double eps = 1e-5;
  bool affine = false;
};

// Normalises each channel of each sample of x (N, C, H, W). There are no running statistics.
class InstanceNorm2d : public Module {
 public:
  explicit InstanceNorm2d(std::int64_t channels, const InstanceNorm2dOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return describe_as(channels_); }

  Tensor weight, bias;

 private:
  std::int64_t channels_;
  double eps_;
};

}  // namespace tandem::nn
