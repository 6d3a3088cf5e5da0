#include <tandem/autograd/batch_norm_exchange.h>
#include <tandem/autograd/functions/norm.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/gradient_place.h>
#include <tandem/autograd/graph.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/into.h>

namespace tandem {

using namespace autograd;

namespace {

Array inverse_sqrt(const Array& variance, double eps) {
  const Array std = ops::map(functors::Sqrt{}, ops::map(functors::Affine{1, eps}, variance));
  return ops::zip(functors::Div{}, ops::ones(std.shape(), std.dtype(), std.device()), std);
}

// The statistics with which batch_norm normalises. `count`, of shape (), is the number of values per channel from which
// they were computed. It is unset in evaluation.
struct Statistics {
  Array mean, invstd;
  std::optional<Array> count;
};

// Computes the statistics of the batch x (N, C, H, W), over all ranks if they exchange sums, and updates the running
// ones.
Statistics statistics_of_batch(const Array& x, const BatchNormState& state) {
  const auto check_values = [&](double values) {
    TANDEM_CHECK(values != 1, "batch_norm: expected more than 1 value per channel in training, got input ", x.shape(),
                 state.exchange ? " and no value on any other rank" : "",
                 ": the variance of 1 value per channel is undefined. Use a larger batch, drop the last "
                 "short one (drop_last)",
                 state.exchange ? "" : ", or let several ranks share their statistics (SyncBatchNorm)");
  };
  const std::int64_t values_here = x.dim(0) * x.dim(2) * x.dim(3);
  BatchNormUpdate update{state.running_mean, state.running_var, {}, state.momentum, state.eps, state.num_batches};
  ops::BatchNormStats stats;
  if (state.exchange) {
    const Array parts = state.exchange->gather(ops::batch_norm_stats(x).packed);
    // If this rank has several values, so have all ranks together. Only if it has fewer is it worth waiting for the
    // count over all ranks.
    const std::int64_t last = parts.dim(1) - 1;
    if (values_here <= 1) check_values(ops::reduce(Reduction::sum, parts.slice(1, last, last + 1)).item());
    stats = ops::batch_norm_combine(parts, update);
  } else {
    check_values(static_cast<double>(values_here));
    stats = ops::batch_norm_stats(x, &update);
  }
  return {stats.mean, update.invstd, stats.count};
}

// The running mean is copied, because later training may change it before backward runs.
Statistics running_statistics(const BatchNormState& state) {
  return {state.running_mean.clone(), inverse_sqrt(state.running_var, state.eps), {}};
}

struct BatchNormBackward {
  Saved in, weight, bias;
  Saved y;  // the output; set if only it shows which numbers passed the ReLU
  BatchNormAffine affine;
  BatchNormFusion fusion;
  std::optional<Array> count;
  std::shared_ptr<BatchNormExchange> exchange;  // null if the statistics are those of this rank alone
  Array selected, index;

  Gradients operator()(const Array& grad_y, Needs needs) const {
    weight.check_unchanged();
    bias.check_unchanged();
    Array grad = grad_y.channels_last();  // both passes over the gradient need this memory order
    std::optional<BatchNormLastRelu> last;
    if (y.is_set()) last = {y, empty_like(grad)};
    const auto* const relu = last ? &*last : nullptr;
    // If ranks share statistics, their sums are adjacent, for one exchange, and not in the memory of two gradients.
    const Array& seen = fusion.max_pool_2x2 ? selected : in.get();
    ops::BatchNormSums sums{gradient_place(2), gradient_place(1)};
    if (!exchange && sums.dy.defined() && sums.dy_xhat.defined())
      ops::batch_norm_grad_reduce_into(seen, affine, fusion, grad, relu, sums.dy, sums.dy_xhat);
    else sums = ops::batch_norm_grad_reduce(seen, affine, fusion, grad, relu);
    if (last) grad = last->grad;
    Gradients gradients{Array(), sums.dy_xhat, sums.dy, grad};
    if (needs[0]) {
      const auto all = exchange ? ops::unpack_batch_norm_sums(exchange->sum_over_ranks(sums.packed)) : sums;
      const bool in_place = needs.is_last_run() && in.is_unshared();
      gradients[0] = ops::batch_norm_grad_input(in, affine, fusion, grad, index, all, count, in_place);
    }
    return gradients;
  }
};

// Returns how to recompute `y`, or null if the graph holds y. Recomputing takes one pass over x, far less time than the
// convolution that needs y, and the x and y of all layers fill most of the memory. Small outputs are not worth the
// time. The result for a signal (N, C, L) is a view of y, so y stays in memory anyway. If the addend is itself
// recomputed, recomputing y would force the graph to store the addend.
std::shared_ptr<Recomputed> recomputed_output(const Array& y, const BatchNormBackward& saved, const Tensor& addend) {
  constexpr std::int64_t fewest_numbers = 1 << 20;
  if (y.device().is_cpu() || saved.fusion.max_pool_2x2 || y.numel() < fewest_numbers || y.dim(3) == 1) return nullptr;
  if (addend.defined() && !addend.is_leaf() && addend.state()->node->recomputed) return nullptr;
  const auto compute = [in = saved.in, weight = saved.weight, bias = saved.bias, affine = saved.affine,
                        fusion = saved.fusion, shortcut = addend.defined() ? Saved("batch_norm", addend) : Saved()] {
    weight.check_unchanged();
    bias.check_unchanged();
    return ops::batch_norm_apply(in, affine, fusion, shortcut.is_set() ? shortcut.get() : Array()).y;
  };
  return std::make_shared<Recomputed>(compute, y.storage()->version());
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion, const Tensor& addend) {
  const int ndim = x.shape().ndim();
  if (ndim == 2 || ndim == 3) {
    TANDEM_CHECK(!fusion.max_pool_2x2, "batch_norm: only (N, C, H, W) can be pooled, got ", x.shape());
    const Shape image{x.dim(0), x.dim(1), ndim == 3 ? x.dim(2) : 1, 1};
    const Tensor more = addend.defined() ? reshape(addend, image) : addend;
    return reshape(batch_norm(reshape(x, image), weight, bias, state, fusion, more), x.shape());
  }
  const Scope scope("batch_norm");
  TANDEM_CHECK(ndim == 4, "batch_norm: input must be (N, C), (N, C, L) or (N, C, H, W), got ", x.shape());
  const Shape channels{x.dim(1)};
  const DType dtype = compute_dtype(x.dtype());
  BatchNormAffine affine{{},
                         {},
                         weight.defined() ? weight.value() : ops::ones(channels, dtype, x.device()),
                         bias.defined() ? bias.value() : ops::zeros(channels, dtype, x.device())};
  ops::check_batch_norm(x.value(), affine, state.running_mean, state.running_var);
  const bool by_batch = state.training || !state.running_mean.defined();
  const Statistics statistics = by_batch ? statistics_of_batch(x.value(), state) : running_statistics(state);
  affine.mean = statistics.mean;
  affine.invstd = statistics.invstd;
  const auto out = ops::batch_norm_apply(x.value(), affine, fusion, value_of(addend));
  BatchNormBackward backward{.in = Saved("batch_norm", x.value()),
                             .weight = Saved("batch_norm", affine.weight),
                             .bias = Saved("batch_norm", affine.bias),
                             .y = {},
                             .affine = affine,
                             .fusion = fusion,
                             .count = statistics.count,
                             .exchange = by_batch ? state.exchange : nullptr,
                             .selected = out.selected,
                             .index = out.index};
  auto recomputed = recomputed_output(out.y, backward, addend);
  // Backward undoes the operations in reverse order, starting with the ReLU. With an addend, x does not show which
  // numbers passed the ReLU, but the output y does.
  if (addend.defined() && fusion.relu) {
    backward.y = recomputed ? Saved(recomputed) : Saved("batch_norm", out.y);
    backward.fusion.relu = false;
  }
  const Tensor result = record("batch_norm", {x, weight, bias, addend}, out.y, std::move(backward));
  if (!result.is_leaf()) result.state()->node->recomputed = std::move(recomputed);
  return result;
}

}  // namespace tandem
