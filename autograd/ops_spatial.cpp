#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops.h>
#include <tandem/core/ops.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Window& window) {
  const Tensor x = autocast_low(input);
  const auto bias_value = bias.defined() ? std::optional(bias.value()) : std::nullopt;
  const Array y = ops::conv2d(x.value(), weight.value(), bias_value, window);
  return record("conv2d", {x, weight, bias}, y,
                [in = Saved("conv2d", x.value()), w = Saved("conv2d", weight.value()), window](
                    const Array& grad, Needs needs) -> Gradients {
                  Gradients gradients(3);
                  if (needs[0]) gradients[0] = ops::conv2d_grad_input(grad, w, window, in.get().shape());
                  if (needs[1] || needs[2]) {
                    auto sums =
                        ops::conv2d_grad_weight(in, grad, window, w.get().dim(0), needs[2], w.get().dtype());
                    gradients[1] = std::move(sums.weight);
                    gradients[2] = std::move(sums.bias);
                  }
                  return gradients;
                });
}

Tensor max_pool2d(const Tensor& x, const Window& window) {
  const auto pooled = ops::max_pool2d(x.value(), window);
  return record("max_pool2d", {x}, pooled.y,
                [index = pooled.index, window, shape = x.shape()](const Array& grad, Needs) -> Gradients {
                  return {ops::max_pool2d_grad(grad, index, window, shape)};
                });
}

namespace {

void update_running(Array& running, double momentum, const Array& observed) {
  ops::scale_(running, 1 - momentum);
  ops::add_(running, ops::map(functors::Affine{momentum, 0}, observed));
}

Array inverse_sqrt(const Array& variance, double scale, double eps) {
  const Array std = ops::map(functors::Sqrt{}, ops::map(functors::Affine{scale, eps}, variance));
  return ops::zip(functors::Div{}, ops::ones(std.shape(), std.dtype(), std.device()), std);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion) {
  TANDEM_CHECK(x.shape().rank() == 4, "batch_norm: input must be (N, C, H, W), got ", x.shape());
  // Before the running statistics change.
  for (const Array& a : {weight.value(), bias.value(), state.running_mean, state.running_var})
    TANDEM_CHECK(a.shape() == Shape{x.dim(1)}, "batch_norm: input ", x.shape(), " has ", x.dim(1),
                 " channels, but weight, bias or running statistics have shape ", a.shape());
  BatchNormAffine affine{{}, {}, weight.value(), bias.value()};
  double count = 0;  // values per channel that share statistics; 0: running statistics, which are constants
  if (state.training) {
    const auto stats = ops::batch_norm_stats(x.value());
    count = static_cast<double>(stats.count);
    TANDEM_CHECK(stats.count > 1, "batch_norm: input ", x.shape(), " has only ", stats.count,
                 " value per channel, whose variance is not defined; use a larger batch, drop the last short "
                 "one, or share "
                 "statistics over ranks with SyncBatchNorm");
    affine.mean = stats.mean;
    affine.invstd = inverse_sqrt(stats.m2, 1 / count, state.eps);
    update_running(state.running_mean, state.momentum, stats.mean);
    update_running(state.running_var, state.momentum,
                   ops::map(functors::Affine{1 / (count - 1), 0}, stats.m2));
  } else {
    affine.mean = state.running_mean.clone();  // backward may come after later training has moved them
    affine.invstd = inverse_sqrt(state.running_var, 1, state.eps);
  }
  const auto out = ops::batch_norm_apply(x.value(), affine, fusion);
  return record("batch_norm", {x, weight, bias}, out.y,
                [in = Saved("batch_norm", x.value()), w = Saved("batch_norm", weight.value()),
                 b = Saved("batch_norm", bias.value()), affine, fusion, count, selected = out.selected,
                 index = out.index](const Array& grad, Needs needs) -> Gradients {
                  w.get();
                  b.get();
                  const auto sums = ops::batch_norm_grad_reduce(fusion.max_pool_2x2 ? selected : in.get(),
                                                                affine, fusion, grad);
                  const double share = count > 0 ? 1 / count : 0;
                  const ops::BatchNormSums means{ops::map(functors::Affine{share, 0}, sums.dy),
                                                 ops::map(functors::Affine{share, 0}, sums.dy_xhat)};
                  const bool in_place = needs.is_last_run() && in.is_unshared();
                  return {ops::batch_norm_grad_input(in, affine, fusion, grad, index, means, in_place),
                          sums.dy_xhat, sums.dy};
                });
}

}  // namespace tandem
