// One step of stochastic gradient descent for one number, the same on every device.
//
// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013, in PyTorch's form:
// the velocity is a sum of gradients and the learning rate multiplies it as it is applied.
#pragma once

#include <tandem/core/backend.h>

namespace tandem {

struct SgdUpdate {
  float lr, decay, momentum, keep;
  bool nesterov;

  explicit SgdUpdate(const SgdOptions& options)
      : lr(static_cast<float>(options.lr)),
        decay(static_cast<float>(options.weight_decay)),
        momentum(static_cast<float>(options.momentum)),
        keep(static_cast<float>(1 - options.dampening)),
        nesterov(options.nesterov) {}

  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient) const {
    parameter -= lr * (gradient + decay * parameter);
  }
  // is_fresh: there is no velocity yet.
  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& velocity, bool is_fresh) const {
    const float update = gradient + decay * parameter;
    velocity = is_fresh ? update : momentum * velocity + keep * update;
    parameter -= lr * (nesterov ? update + momentum * velocity : velocity);
  }
};

}  // namespace tandem
