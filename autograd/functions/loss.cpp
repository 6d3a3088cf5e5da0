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

Tensor softmax(const char* name, const Tensor& input, std::int64_t dim, bool logarithm) {
  const Scope scope(name);
  const Tensor x = autocast_f32(input);
  const Array y = ops::softmax(x.value(), dim, logarithm);
  return record(name, {x}, y, [out = Saved(name, y), dim, logarithm](const Array& grad, Needs) -> Gradients {
    return {ops::softmax_grad(out, grad, dim, logarithm)};
  });
}

Tensor reduced(const Tensor& losses, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::mean: return mean(losses);
    case LossReduction::sum: return sum(losses);
    default: return losses;
  }
}

// The loss where `target` holds class indices. x holds logits or logarithms of probabilities. Numbers of 16 bits are
// read as they are: the loss and all that leads to it are f32.
Tensor class_loss(const char* name, const Tensor& x, const Array& target, const Array& weight, const ClassLoss& how) {
  const Scope scope(name);
  const auto forward = ops::cross_entropy(x.value(), target, weight, how);
  return record(name, {x}, forward.loss,
                [forward, in = Saved(name, x.value()), wanted = Saved(name, target), weight, how](const Array& grad,
                                                                                                  Needs) -> Gradients {
                  return {ops::cross_entropy_grad(forward, in, wanted, weight, how, grad)};
                });
}

// The loss where `target` holds a probability for each class.
Tensor probability_loss(const Tensor& input, const Tensor& target, const CrossEntropyLossOptions& options) {
  TANDEM_CHECK(input.shape().ndim() >= 1 && target.shape() == input.shape(), "cross_entropy: a target of ",
               target.dtype(), " holds probabilities, and must have the shape of the logits, ", input.shape(), ", got ",
               target.shape(), "; class numbers are i64");
  Tensor x = autocast_f32(input);
  if (x.dtype() != DType::f64) x = cast(x, DType::f32);
  const std::int64_t dim = x.shape().ndim() == 1 ? 0 : 1, classes = x.dim(dim);
  Tensor wanted = target;
  if (options.label_smoothing > 0)
    wanted = affine(wanted, 1 - options.label_smoothing, options.label_smoothing / static_cast<double>(classes));
  Tensor product = mul(log_softmax(x, dim), wanted);
  if (options.weight.defined()) {
    TANDEM_CHECK(options.weight.shape() == Shape{classes}, "cross_entropy: input ", x.shape(), " wants weight (",
                 classes, "), got ", options.weight.shape());
    Shape shape = Shape::filled(x.shape().ndim(), 1);
    shape[static_cast<int>(dim)] = classes;
    product = mul(product, Tensor(options.weight.reshape(shape)));
  }
  if (options.reduction == LossReduction::none) return neg(sum(product, {dim}));
  const double rows = static_cast<double>(x.numel()) / static_cast<double>(classes);
  return affine(sum(product), options.reduction == LossReduction::mean ? -1 / rows : -1, 0);
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

// Error where an input of binary_cross_entropy is no probability. Such an input makes its loss NaN, and so the inputs
// are looked at only then. A GPU's losses are not waited for: there the result stays NaN.
void check_probabilities(const char* name, const Tensor& input, const Array& loss) {
  if (!loss.device().is_cpu() || loss.numel() == 0) return;
  if (!std::isnan((loss.numel() == 1 ? loss : ops::reduce(Reduction::sum, loss)).item())) return;
  const std::vector<double> values = input.value().to_vector<double>();
  const auto is_none = [](double v) { return v < 0 || v > 1; };
  const auto first = std::find_if(values.begin(), values.end(), is_none);
  TANDEM_CHECK(first == values.end(), name, ": the input must be probabilities, from 0 to 1, and ",
               std::count_if(values.begin(), values.end(), is_none), " of its ", values.size(),
               " numbers are not: the first is ", *first,
               ". sigmoid() makes probabilities; binary_cross_entropy_with_logits takes any numbers");
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) { return softmax("softmax", x, dim, false); }
Tensor log_softmax(const Tensor& x, std::int64_t dim) { return softmax("log_softmax", x, dim, true); }

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options) {
  TANDEM_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
               "cross_entropy: label_smoothing must be from 0 to 1, got ", options.label_smoothing);
  if (is_floating(target.dtype())) return probability_loss(logits, target, options);
  return class_loss("cross_entropy", logits, target.value(), options.weight,
                    {options.reduction, options.ignore_index, options.label_smoothing});
}

Tensor nll_loss(const Tensor& log_p, const Tensor& target, const NLLLossOptions& options) {
  return class_loss("nll_loss", log_p, target.value(), options.weight,
                    {options.reduction, options.ignore_index, 0, true});
}

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
