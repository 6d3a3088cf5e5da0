// Batch normalisation: which operations are fused with it, and how training updates statistics, the same on every
// device. The formulas of forward and backward stand together in core/ops/norm.h.
#pragma once

#include <tandem/core/base/half.h>

#include <cmath>
#include <cstdint>

namespace tandem {

// The operations that follow batch normalisation of x (N, C, H, W) in the same pass over memory: first ReLU, then 2 x 2
// max pooling, each where asked for.
struct BatchNormFusion {
  bool relu = false;
  bool max_pool_2x2 = false;
};

// BatchNormUpdate (core/ops/norm.h) for kernels: plain pointers to numbers of C, the type that is computed in.
template <class C>
struct BatchNormTracker {
  C *running_mean, *running_var, *invstd;  // null running statistics: there are none
  std::int64_t* num_batches;               // null: nobody counts batches
  double eps, momentum;

  BatchNormTracker() = default;
  template <class Update>
  explicit BatchNormTracker(const Update& update)
      : running_mean(update.running_mean.defined() ? static_cast<C*>(update.running_mean.raw()) : nullptr),
        running_var(running_mean ? static_cast<C*>(update.running_var.raw()) : nullptr),
        invstd(static_cast<C*>(update.invstd.raw())),
        num_batches(update.num_batches.defined() ? static_cast<std::int64_t*>(update.num_batches.raw()) : nullptr),
        eps(update.eps),
        momentum(update.momentum) {}

  // Updates channel c. m2 is the sum of squared deviations of `count` values from their mean. The running variance is
  // the unbiased one, m2 / (count - 1).
  TANDEM_HOST_DEVICE void operator()(std::int64_t c, C mean, C m2, C count) const {
    invstd[c] = 1 / std::sqrt(m2 / count + static_cast<C>(eps));
    if (c == 0 && num_batches) ++*num_batches;
    if (count == 0 || !running_mean) return;
    const C keep = static_cast<C>(1 - momentum), take = static_cast<C>(momentum);
    running_mean[c] = running_mean[c] * keep + mean * take;
    running_var[c] = running_var[c] * keep + m2 / (count - 1) * take;
  }
};

}  // namespace tandem
