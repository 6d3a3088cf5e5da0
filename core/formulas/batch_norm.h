// The formulas of batch normalisation, forward and backward, the operations that can be fused with it, and the update
// of the running statistics. They are the same on every device.
//
// Batch normalisation of x (N, C, H, W) is computed for each channel. M is the number of values of a channel in the
// whole batch. The batch is that of this rank or, if the ranks share their statistics (SyncBatchNorm), of all ranks.
// Sums run over those M values except where noted, and all statistics are (C).
//
// Forward, in training:
//   mean = sum(x) / M
//   m2 = sum((x - mean)^2)                        batch_norm_stats: mean, m2 and M of this rank; batch_norm_combine
//                                                 merges those of several ranks
//   invstd = 1 / sqrt(m2 / M + eps)               batch_norm_stats with an update, or batch_norm_combine
//   xhat = (x - mean) * invstd
//   y = pool(relu(xhat * weight + bias + addend)) batch_norm_apply; ReLU, pooling and addend are optional
//
// Running statistics, also by batch_norm_stats with an update, or by batch_norm_combine (the variance is unbiased):
//   running_mean = (1 - momentum) * running_mean + momentum * mean
//   running_var  = (1 - momentum) * running_var  + momentum * m2 / (M - 1)
// In evaluation, batch_norm_apply uses mean = running_mean and invstd = 1 / sqrt(running_var + eps).
//
// Backward, where dy is the gradient at xhat * weight + bias, that is, grad_y after undoing pooling and ReLU:
//   grad_bias   = sum(dy) of this rank            batch_norm_grad_reduce: BatchNormSums::dy
//   grad_weight = sum(dy * xhat) of this rank     batch_norm_grad_reduce: BatchNormSums::dy_xhat
//   grad_x = weight * invstd * (dy - mean(dy) - xhat * mean(dy * xhat))
//                                                 batch_norm_grad_input, where mean(dy) = sum(dy) / M and
//                                                 mean(dy * xhat) = sum(dy * xhat) / M; the caller first adds the
//                                                 sums of the ranks that share statistics
//   grad_addend = dy
// Backward, in evaluation, where mean and invstd do not depend on x; the other gradients are as above:
//   grad_x = weight * invstd * dy                 batch_norm_grad_input without a count
// The phases are functions of core/ops/norm.h; their kernels are core/cpu/batch_norm.cpp and core/cuda/batch_norm.cu.
#pragma once

#include <tandem/core/base/half.h>

#include <cmath>
#include <cstdint>

namespace tandem {

// The operations that follow batch normalisation of x (N, C, H, W) in the same pass over memory: first ReLU, then 2 x 2
// max pooling. Each of them is optional.
struct BatchNormFusion {
  bool relu = false;
  bool max_pool_2x2 = false;
};

// BatchNormUpdate (core/ops/norm.h) for kernels: plain pointers to numbers of C, the type used for computation.
template <class C>
struct BatchNormTracker {
  C *running_mean, *running_var, *invstd;  // null running statistics are not updated
  std::int64_t* num_batches;               // null: batches are not counted
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
  // unbiased: m2 / (count - 1).
  TANDEM_HOST_DEVICE void operator()(std::int64_t c, C mean, C m2, C count) const {
    invstd[c] = 1 / std::sqrt(m2 / count + static_cast<C>(eps));
    if (c == 0 && num_batches) ++*num_batches;
    if (count == 0 || !running_mean) return;
    const C keep = static_cast<C>(1 - momentum), take = static_cast<C>(momentum);
    running_mean[c] = running_mean[c] * keep + mean * take;
    running_var[c] = running_var[c] * keep + m2 / (count - 1) * take;
  }
};

// Merges the statistics of the parts of a batch in double (Chan, Golub, LeVeque, "Updating formulae and a pairwise
// algorithm for computing sample variances", 1979). A part's m2 around the common mean is its own m2 plus count * (its
// own mean - the common mean)^2. `parts` is row-major (ranks, 2 * channels + 1): the means, the m2s and the count of
// each rank.
template <class C>
struct BatchNormParts {
  const C* parts;
  std::int64_t ranks, channels;

  TANDEM_HOST_DEVICE double count_of(std::int64_t rank) const {
    return static_cast<double>(parts[rank * (2 * channels + 1) + 2 * channels]);
  }
  TANDEM_HOST_DEVICE double mean_of(std::int64_t rank, std::int64_t c) const {
    return static_cast<double>(parts[rank * (2 * channels + 1) + c]);
  }
  // Writes the statistics of channel c and updates the running statistics.
  TANDEM_HOST_DEVICE void combine(std::int64_t c, C* mean_out, C* m2_out, C* count_out,
                                  const BatchNormTracker<C>& track) const {
    double count = 0, mean = 0, m2 = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
      count += count_of(r);
      mean += mean_of(r, c) * count_of(r);
    }
    mean /= count;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const double off = mean_of(r, c) - mean;
      m2 += static_cast<double>(parts[r * (2 * channels + 1) + channels + c]) + off * off * count_of(r);
    }
    mean_out[c] = static_cast<C>(mean);
    m2_out[c] = static_cast<C>(m2);
    if (c == 0) *count_out = static_cast<C>(count);
    track(c, mean_out[c], m2_out[c], static_cast<C>(count));
  }
};

}  // namespace tandem
