#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_spatial.h>
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

}  // namespace tandem
