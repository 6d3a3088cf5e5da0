// The gradients of softmax and its loss, for one number of a row, the same on every device.
#pragma once

#include <tandem/core/half.h>

#include <cmath>

namespace tandem {

// Of log_softmax with the output y; sum_grad_y: over the row.
template <class C>
TANDEM_HOST_DEVICE C log_softmax_gradient(C y, C grad_y, C sum_grad_y) {
  return grad_y - std::exp(y) * sum_grad_y;
}

// Of cross_entropy with respect to a logit with this probability; factor: the loss's gradient over the number of rows.
template <class C>
TANDEM_HOST_DEVICE C cross_entropy_gradient(C probability, bool is_target, C factor) {
  return (probability - (is_target ? C(1) : C(0))) * factor;
}

}  // namespace tandem
