#include <tandem/autograd/autocast.h>
#include <tandem/autograd/batch_norm_exchange.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Window& window) {
  const ProfileRange range("conv2d");
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
  const ProfileRange range("max_pool2d");
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

Array inverse_sqrt(const Array& variance, double eps) {
  const Array std = ops::map(functors::Sqrt{}, ops::map(functors::Affine{1, eps}, variance));
  return ops::zip(functors::Div{}, ops::ones(std.shape(), std.dtype(), std.device()), std);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion) {
  const ProfileRange range("batch_norm");
  TANDEM_CHECK(x.shape().rank() == 4, "batch_norm: input must be (N, C, H, W), got ", x.shape());
  // Before the running statistics change.
  for (const Array& a : {weight.value(), bias.value(), state.running_mean, state.running_var})
    TANDEM_CHECK(a.shape() == Shape{x.dim(1)}, "batch_norm: input ", x.shape(), " has ", x.dim(1),
                 " channels, but weight, bias or running statistics have shape ", a.shape());
  BatchNormAffine affine{{}, {}, weight.value(), bias.value()};
  Array count;  // (): values per channel that share statistics; undefined in evaluation
  if (state.training) {
    const auto mine = ops::batch_norm_stats(x.value());
    BatchNormExchange::Statistics stats{
        mine.mean, mine.m2,
        ops::scalar(static_cast<double>(mine.count), mine.mean.dtype(), mine.mean.device())};
    if (state.exchange) stats = state.exchange->combine(mine);
    count = stats.count;
    // Several values here are several in all; only otherwise is the count of all ranks worth waiting for.
    const double values = mine.count > 1 ? static_cast<double>(mine.count) : count.item();
    TANDEM_CHECK(
        values != 1, "batch_norm: expected more than 1 value per channel in training, got input ", x.shape(),
        state.exchange ? " and not one more value on all other ranks" : "",
        ": the variance of 1 value per channel is not defined. Use a larger batch, leave out the last "
        "short one (drop_last)",
        state.exchange ? "" : ", or share statistics over ranks (SyncBatchNorm)");
    const Array variance = ops::zip(functors::Div{}, stats.m2, count);
    affine.mean = stats.mean;
    affine.invstd = inverse_sqrt(variance, state.eps);
    if (values > 0) {
      update_running(state.running_mean, state.momentum, stats.mean);
      update_running(state.running_var, state.momentum,
                     ops::zip(functors::Div{}, stats.m2, ops::map(functors::Affine{1, -1}, count)));
    }
  } else {
    affine.mean = state.running_mean.clone();  // backward may come after later training has moved them
    affine.invstd = inverse_sqrt(state.running_var, state.eps);
  }
  const auto out = ops::batch_norm_apply(x.value(), affine, fusion);
  return record("batch_norm", {x, weight, bias}, out.y,
                [in = Saved("batch_norm", x.value()), w = Saved("batch_norm", weight.value()),
                 b = Saved("batch_norm", bias.value()), affine, fusion, count,
                 exchange = state.training ? state.exchange : nullptr, selected = out.selected,
                 index = out.index](const Array& grad, Needs needs) -> Gradients {
                  w.get();
                  b.get();
                  const auto sums = ops::batch_norm_grad_reduce(fusion.max_pool_2x2 ? selected : in.get(),
                                                                affine, fusion, grad);
                  Gradients gradients{Array(), sums.dy_xhat, sums.dy};
                  if (needs[0]) {
                    const auto all = exchange ? exchange->add(sums) : sums;
                    const auto mean = [&count](const Array& sum) {
                      return count.defined() ? ops::zip(functors::Div{}, sum, count)
                                             : ops::zeros(sum.shape(), sum.dtype(), sum.device());
                    };
                    const ops::BatchNormSums means{mean(all.dy), mean(all.dy_xhat)};
                    const bool in_place = needs.is_last_run() && in.is_unshared();
                    gradients[0] =
                        ops::batch_norm_grad_input(in, affine, fusion, grad, index, means, in_place);
                  }
                  return gradients;
                });
}

}  // namespace tandem
