// BatchNormExchange: how batch_norm learns about the parts of its batch that other ranks hold.
#pragma once

#include <tandem/core/ops.h>

namespace tandem {

// batch_norm calls the exchange on the thread that runs forward or backward. Both calls are collective: every rank
// makes the same calls in the same order, also a rank whose part is empty. distributed/ddp/sync_batch_norm.h implements
// the exchange on a process group.
class BatchNormExchange {
 public:
  virtual ~BatchNormExchange() = default;
  // Each rank passes the statistics (in combine) or the gradient sums (in sum_over_ranks) of its own part of the batch,
  // and gets those of the whole batch, in the dtype of `mine`.
  virtual ops::BatchNormStats combine(const ops::BatchNormStats& mine) = 0;
  virtual ops::BatchNormSums sum_over_ranks(const ops::BatchNormSums& mine) = 0;
};

}  // namespace tandem
