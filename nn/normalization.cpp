#include <tandem/core/ops.h>
#include <tandem/nn/normalization.h>

#include <sstream>

namespace tandem::nn {

namespace {

void check_shape(const char* name, const Shape& shape) {
  TANDEM_CHECK(shape.ndim() > 0 && shape.product() > 0, name,
               ": the shape needs at least one dimension and positive sizes, got ", shape);
}

// For example "LayerNorm(64)".
std::string describe_shape(const Module& module, const Shape& shape) {
  std::ostringstream text;
  text << module.class_name() << shape;
  return std::move(text).str();
}

}  // namespace

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options) : shape_(shape), eps_(options.eps) {
  check_shape("LayerNorm", shape);
  if (!options.elementwise_affine) return;
  weight = add_parameter("weight", ops::ones(shape));
  if (options.bias) bias = add_parameter("bias", ops::zeros(shape));
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options) : shape_(shape), eps_(options.eps) {
  check_shape("RMSNorm", shape);
  if (options.elementwise_affine) weight = add_parameter("weight", ops::ones(shape));
}

std::string LayerNorm::describe() const { return describe_shape(*this, shape_); }
std::string RMSNorm::describe() const { return describe_shape(*this, shape_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options)
    : groups_(groups), channels_(channels), eps_(options.eps) {
  TANDEM_CHECK(groups > 0 && channels > 0 && channels % groups == 0, "GroupNorm: ", channels,
               " channels can't be divided into ", groups, " groups");
  if (!options.affine) return;
  weight = add_parameter("weight", ops::ones({channels}));
  bias = add_parameter("bias", ops::zeros({channels}));
}

InstanceNorm2d::InstanceNorm2d(std::int64_t channels, const InstanceNorm2dOptions& options)
    : channels_(channels), eps_(options.eps) {
  TANDEM_CHECK(channels > 0, "InstanceNorm2d: channels must be positive, got ", channels);
  if (!options.affine) return;
  weight = add_parameter("weight", ops::ones({channels}));
  bias = add_parameter("bias", ops::zeros({channels}));
}

Tensor InstanceNorm2d::forward(const Tensor& x) {
  TANDEM_CHECK(x.shape().ndim() == 4 && x.dim(1) == channels_, "InstanceNorm2d: input must be (N, ", channels_,
               ", H, W), got ", x.shape());
  return instance_norm(x, weight, bias, eps_);
}

}  // namespace tandem::nn
