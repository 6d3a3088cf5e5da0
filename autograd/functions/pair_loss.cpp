// Losses of input and target pairs (loss.h).
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <algorithm>
#include <cmath>

namespace tandem {

using namespace autograd;

namespace {

Tensor reduced(const Tensor& losses, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::mean: return mean(losses);
    case LossReduction::sum: return sum(losses);
    default: return losses;
  }
}

Tensor pair_loss(const char* name, const PairLoss& loss, const Tensor& x, const Tensor& target,
                 std::optional<double> scale) {
  const Scope scope(name);
  return record(name, {x, target}, ops::pair_loss(loss, x.value(), target.value(), scale, name),
                [loss, in = Saved(name, x.value()), wanted = Saved(name, target.value()), scale](
                    const Array& grad, Needs needs) -> Gradients {
                  Gradients gradients(2);
                  for (int i = 0; i < 2; ++i)
                    if (needs[i]) gradients[i] = ops::pair_loss_grad(loss, i, in, wanted, grad, scale);
                  return gradients;
                });
}

void check_same_shape(const char* name, const Tensor& input, const Tensor& target) {
  TANDEM_CHECK(input.shape() == target.shape(), name, ": target must have the shape of the input, ", input.shape(),
               ", got ", target.shape());
}

Tensor pair_loss(const char* name, const PairLoss& loss, const Tensor& input, const Tensor& target,
                 LossReduction reduction) {
  check_same_shape(name, input, target);
  const Tensor x = autocast_f32(input), wanted = autocast_f32(target);
  std::optional<double> scale;
  if (reduction == LossReduction::sum) scale = 1;
  if (reduction == LossReduction::mean) scale = 1 / static_cast<double>(x.numel());
  return pair_loss(name, loss, x, wanted, scale);
}

// Throws an Error if an input of binary_cross_entropy is not a probability. Such an input makes the loss NaN, so the
// inputs are checked only if the loss is NaN. The host does not wait for a GPU's loss, which stays NaN.
void check_probabilities(const char* name, const Tensor& input, const Array& loss) {
  if (!loss.device().is_cpu() || loss.numel() == 0) return;
  if (!std::isnan((loss.numel() == 1 ? loss : ops::reduce(Reduction::sum, loss)).item())) return;
  const std::vector<double> values = input.value().to_vector<double>();
  const auto is_none = [](double v) { return v < 0 || v > 1; };
  const auto first = std::find_if(values.begin(), values.end(), is_none);
  TANDEM_CHECK(first == values.end(), name, ": the input must hold probabilities from 0 to 1, but ",
               std::count_if(values.begin(), values.end(), is_none), " of its ", values.size(),
               " numbers are not: the first is ", *first,
               ". sigmoid() gives probabilities; binary_cross_entropy_with_logits takes any number");
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, LossReduction reduction) {
  return pair_loss("mse_loss", losses::Squared{}, input, target, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, LossReduction reduction) {
  return pair_loss("l1_loss", losses::Absolute{}, input, target, reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options) {
  TANDEM_CHECK(options.beta >= 0, "smooth_l1_loss: beta must not be negative, got ", options.beta);
  if (options.beta == 0) return l1_loss(input, target, options.reduction);
  return pair_loss("smooth_l1_loss", losses::Bent(options.beta, 1), input, target, options.reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  TANDEM_CHECK(options.delta > 0, "huber_loss: delta must be positive, got ", options.delta);
  return pair_loss("huber_loss", losses::Bent(options.delta, options.delta), input, target, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options) {
  const char* name = "binary_cross_entropy_with_logits";
  if (!options.weight.defined() && !options.pos_weight.defined())
    return pair_loss(name, losses::BinaryWithLogits{}, logits, target, options.reduction);
  Tensor each = pair_loss(name, losses::BinaryWithLogits{}, logits, target, LossReduction::none);
  if (options.pos_weight.defined()) {
    const Tensor positives = pair_loss(name, losses::PositivesWithLogits{}, logits, target, LossReduction::none);
    each = add(each, mul(positives, Tensor(ops::map(functors::Affine{1, -1}, options.pos_weight.to(each.dtype())))));
  }
  if (options.weight.defined()) each = mul(each, Tensor(options.weight.to(each.dtype())));
  return reduced(each, options.reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCELossOptions& options) {
  const char* name = "binary_cross_entropy";
  check_same_shape(name, input, target);
  const bool has_weight = options.weight.defined();
  const Tensor loss =
      pair_loss(name, losses::Binary{}, input, target, has_weight ? LossReduction::none : options.reduction);
  check_probabilities(name, input, loss.value());
  return has_weight ? reduced(mul(loss, Tensor(options.weight.to(loss.dtype()))), options.reduction) : loss;
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options) {
  const PairLoss loss =
      options.log_target ? PairLoss(losses::KullbackLeiblerOfLogs{}) : PairLoss(losses::KullbackLeibler{});
  if (!options.batchmean) return pair_loss("kl_div", loss, input, target, options.reduction);
  check_same_shape("kl_div", input, target);
  const double batch = input.shape().ndim() == 0 ? 1 : static_cast<double>(input.dim(0));
  return pair_loss("kl_div", loss, autocast_f32(input), autocast_f32(target), std::optional(1 / batch));
}

}  // namespace tandem
