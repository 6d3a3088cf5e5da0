#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_linear.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

Tensor matmul(const Tensor& left, const Tensor& right) {
  const ProfileRange range("matmul");
  const Tensor a = autocast_low(left), b = autocast_low(right);
  return record("matmul", {a, b}, ops::matmul(a.value(), b.value()),
                [x = Saved("matmul", a.value()), y = Saved("matmul", b.value())](const Array& grad,
                                                                                 Needs needs) -> Gradients {
                  Gradients gradients(2);
                  if (needs[0]) gradients[0] = ops::matmul(grad, y.get().transpose(0, 1));
                  if (needs[1]) gradients[1] = ops::matmul(x.get().transpose(0, 1), grad);
                  return gradients;
                });
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const ProfileRange range("linear");
  const Tensor x = autocast_low(input);
  TANDEM_CHECK(x.shape().rank() == 2 && weight.shape().rank() == 2 && x.dim(1) == weight.dim(1),
               "linear: input ", x.shape(), " does not fit weight ", weight.shape(), ": needs (N, ",
               weight.shape().rank() == 2 ? weight.dim(1) : 0, ")");
  const auto bias_value = bias.defined() ? std::optional(bias.value()) : std::nullopt;
  return record("linear", {x, weight, bias},
                ops::matmul(x.value(), weight.value().transpose(0, 1), bias_value),
                [in = Saved("linear", x.value()), w = Saved("linear", weight.value())](
                    const Array& grad, Needs needs) -> Gradients {
                  Gradients gradients(3);
                  if (needs[0]) gradients[0] = ops::matmul(grad, w);
                  if (needs[1]) gradients[1] = ops::matmul(grad.transpose(0, 1), in).to(w.get().dtype());
                  if (needs[2]) gradients[2] = ops::reduce(Reduction::sum, grad.to(w.get().dtype()), {0});
                  return gradients;
                });
}

}  // namespace tandem
