#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

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

// The loss if `target` holds class indices. x holds logits or logarithms of probabilities. 16-bit numbers are read
// directly, but the loss and all intermediate results are f32.
Tensor class_loss(const char* name, const Tensor& x, const Array& target, const Array& weight, const ClassLoss& how) {
  const Scope scope(name);
  const auto forward = ops::cross_entropy(x.value(), target, weight, how);
  return record(name, {x}, forward.loss,
                [forward, in = Saved(name, x.value()), wanted = Saved(name, target), weight, how](const Array& grad,
                                                                                                  Needs) -> Gradients {
                  return {ops::cross_entropy_grad(forward, in, wanted, weight, how, grad)};
                });
}

// The loss if `target` holds a probability for each class.
Tensor probability_loss(const Tensor& input, const Tensor& target, const CrossEntropyLossOptions& options) {
  TANDEM_CHECK(input.shape().ndim() >= 1 && target.shape() == input.shape(), "cross_entropy: a target of ",
               target.dtype(), " holds probabilities and must have the shape of the logits, ", input.shape(), ", got ",
               target.shape(), "; pass class indices as i64");
  Tensor x = autocast_f32(input);
  if (x.dtype() != DType::f64) x = cast(x, DType::f32);
  const std::int64_t dim = x.shape().ndim() == 1 ? 0 : 1, classes = x.dim(dim);
  Tensor wanted = target;
  if (options.label_smoothing > 0)
    wanted = affine(wanted, 1 - options.label_smoothing, options.label_smoothing / static_cast<double>(classes));
  Tensor product = mul(log_softmax(x, dim), wanted);
  if (options.weight.defined()) {
    TANDEM_CHECK(options.weight.shape() == Shape{classes}, "cross_entropy: input ", x.shape(),
                 " needs a weight of shape (", classes, "), got ", options.weight.shape());
    Shape shape = Shape::filled(x.shape().ndim(), 1);
    shape[static_cast<int>(dim)] = classes;
    product = mul(product, Tensor(options.weight.reshape(shape)));
  }
  if (options.reduction == LossReduction::none) return neg(sum(product, {dim}));
  const double rows = static_cast<double>(x.numel()) / static_cast<double>(classes);
  return affine(sum(product), options.reduction == LossReduction::mean ? -1 / rows : -1, 0);
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

}  // namespace tandem
