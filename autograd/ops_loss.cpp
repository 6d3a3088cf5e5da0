#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

Tensor log_softmax(const Tensor& input) {
  const ProfileRange range("log_softmax");
  const Tensor x = autocast_f32(input);
  const Array y = ops::log_softmax(x.value());
  return record("log_softmax", {x}, y,
                [out = Saved("log_softmax", y)](const Array& grad, Needs) -> Gradients {
                  return {ops::log_softmax_grad(out, grad)};
                });
}

Tensor softmax(const Tensor& x) { return exp(log_softmax(x)); }

Tensor cross_entropy(const Tensor& input, const Array& target) {
  const ProfileRange range("cross_entropy");
  const Tensor logits = autocast_f32(input);
  const auto forward = ops::cross_entropy(logits.value(), target);
  return record("cross_entropy", {logits}, forward.loss,
                [forward, wanted = Saved("cross_entropy", target), dtype = logits.dtype()](
                    const Array& grad, Needs) -> Gradients {
                  return {ops::cross_entropy_grad(forward, wanted, grad, dtype)};
                });
}

}  // namespace tandem
