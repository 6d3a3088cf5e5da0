// Group, layer, instance and RMS normalisation (norm.h).
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/norm.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <limits>

namespace tandem {

using namespace autograd;

namespace {

Tensor normalise(const char* name, const GroupNorm& how, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto forward = ops::group_norm(how, x.value(), value_of(weight), value_of(bias), name);
  return record(name, {x, weight, bias}, forward.y,
                [how, in = Saved(name, x.value()), w = weight.defined() ? Saved(name, weight.value()) : Saved(),
                 b = value_of(bias), has_weight = weight.defined(), mean = forward.mean,
                 rstd = forward.rstd](const Array& grad, Needs needs) -> Gradients {
                  const Array weight = has_weight ? w.get() : Array();
                  auto sums = ops::group_norm_grad(how, in, weight, mean, rstd, grad, needs[0], needs[1], needs[2]);
                  if (needs[1]) sums.weight = sums.weight.reshape(weight.shape()).to(weight.dtype());
                  if (needs[2]) sums.bias = sums.bias.reshape(b.shape()).to(b.dtype());
                  return {sums.x, sums.weight, sums.bias};
                });
}

void check_shape(const char* name, const Tensor& parameter, const Shape& shape) {
  TANDEM_CHECK(!parameter.defined() || parameter.shape() == shape, name, ": weight and bias must have shape ", shape,
               ", got ", parameter.shape());
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Shape& shape, const Tensor& weight, const Tensor& bias, double eps) {
  const Scope scope("layer_norm");
  const Tensor x = autocast_f32(input);
  check_shape("layer_norm", weight, shape);
  check_shape("layer_norm", bias, shape);
  return normalise("layer_norm", ops::layer_norm_of(x.value(), shape, eps, true, "layer_norm"), x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, std::optional<double> eps) {
  const Scope scope("rms_norm");
  check_shape("rms_norm", weight, shape);
  const double least =
      x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const auto how = ops::layer_norm_of(x.value(), shape, eps.value_or(least), false, "rms_norm");
  return normalise("rms_norm", how, x, weight, {});
}

Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const Scope scope("group_norm");
  const Tensor x = autocast_f32(input);
  const auto how = ops::group_norm_of(x.value(), groups, eps, "group_norm");
  check_shape("group_norm", weight, {how.channels});
  check_shape("group_norm", bias, {how.channels});
  return normalise("group_norm", how, x, weight, bias);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  TANDEM_CHECK(x.shape().ndim() >= 3, "instance_norm: input must be (N, C, ...), got ", x.shape());
  TANDEM_CHECK(x.numel() == 0 || x.numel() != x.dim(0) * x.dim(1),
               "instance_norm: expected more than 1 value per channel of a sample, got input ", x.shape());
  return group_norm(x, x.dim(1), weight, bias, eps);
}

}  // namespace tandem
