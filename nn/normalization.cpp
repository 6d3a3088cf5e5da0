#include <tandem/core/ops.h>
#include <tandem/nn/normalization.h>

namespace tandem::nn {

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options) : shape_(shape), eps_(options.eps) {
  TANDEM_CHECK(shape.ndim() > 0, "LayerNorm: needs the shape of at least one dimension");
  if (!options.elementwise_affine) return;
  weight = add_parameter("weight", ops::ones(shape));
  if (options.bias) bias = add_parameter("bias", ops::zeros(shape));
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options) : shape_(shape), eps_(options.eps) {
  TANDEM_CHECK(shape.ndim() > 0, "RMSNorm: needs the shape of at least one dimension");
  if (options.elementwise_affine) weight = add_parameter("weight", ops::ones(shape));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options)
    : groups_(groups), eps_(options.eps) {
  TANDEM_CHECK(groups > 0 && channels > 0 && channels % groups == 0, "GroupNorm: ", channels,
               " channels can't be divided into ", groups, " groups");
  if (!options.affine) return;
  weight = add_parameter("weight", ops::ones({channels}));
  bias = add_parameter("bias", ops::zeros({channels}));
}

InstanceNorm2d::InstanceNorm2d(std::int64_t channels, const InstanceNormOptions& options)
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
