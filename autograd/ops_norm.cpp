#include <tandem/autograd/batch_norm_exchange.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_norm.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

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
  std::optional<Array> count;  // (): values per channel that share statistics; none in evaluation
  if (state.training) {
    const auto check_values = [&](double values) {
      TANDEM_CHECK(
          values != 1, "batch_norm: expected more than 1 value per channel in training, got input ",
          x.shape(), state.exchange ? " and not one more value on all other ranks" : "",
          ": the variance of 1 value per channel is not defined. Use a larger batch, leave out the last "
          "short one (drop_last)",
          state.exchange ? "" : ", or share statistics over ranks (SyncBatchNorm)");
    };
    const std::int64_t values_here = x.dim(0) * x.dim(2) * x.dim(3);
    BatchNormUpdate update{state.running_mean, state.running_var, {},
                           state.momentum,     state.eps,         state.num_batches};
    ops::BatchNormStats stats;
    if (state.exchange) {
      stats = state.exchange->combine(ops::batch_norm_stats(x.value()));
      // Several values here are several in all; only otherwise is the count of all ranks worth waiting for.
      if (values_here <= 1) check_values(stats.count.item());
      ops::batch_norm_update(stats, update);
    } else {
      check_values(static_cast<double>(values_here));
      stats = ops::batch_norm_stats(x.value(), &update);
    }
    affine.mean = stats.mean;
    affine.invstd = update.invstd;
    count = stats.count;
  } else {
    affine.mean = state.running_mean.clone();  // backward may come after later training has moved them
    affine.invstd = inverse_sqrt(state.running_var, state.eps);
  }
  const auto out = ops::batch_norm_apply(x.value(), affine, fusion);
  return record("batch_norm", {x, weight, bias}, out.y,
                [in = Saved("batch_norm", x.value()), w = Saved("batch_norm", weight.value()),
                 b = Saved("batch_norm", bias.value()), affine, fusion, count,
                 exchange = state.training ? state.exchange : nullptr, selected = out.selected,
                 index = out.index](const Array& grad_y, Needs needs) -> Gradients {
                  w.get();
                  b.get();
                  const Array grad = grad_y.channels_last();  // once for both passes
                  const auto sums = ops::batch_norm_grad_reduce(fusion.max_pool_2x2 ? selected : in.get(),
                                                                affine, fusion, grad);
                  Gradients gradients{Array(), sums.dy_xhat, sums.dy};
                  if (needs[0]) {
                    const auto all = exchange ? exchange->add(sums) : sums;
                    const bool in_place = needs.is_last_run() && in.is_unshared();
                    gradients[0] =
                        ops::batch_norm_grad_input(in, affine, fusion, grad, index, all, count, in_place);
                  }
                  return gradients;
                });
}

}  // namespace tandem
