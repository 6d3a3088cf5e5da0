// BatchNormExchange gives batch_norm the statistics of the batch parts that other ranks hold.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem {

// batch_norm calls the exchange on the thread that runs forward or backward. Both calls are collective: every rank
// makes the same calls in the same order, even a rank whose part is empty. distributed/ddp/sync_batch_norm.h implements
// the exchange on a process group.
class BatchNormExchange {
 public:
  virtual ~BatchNormExchange() = default;
  // Each rank passes the statistics of its part of the batch, packed (2 * C + 1). The result holds the statistics of
  // all ranks in rank order: (ranks, 2 * C + 1).
  virtual Array gather(const Array& mine) = 0;
  // Each rank passes the gradient sums of its part, packed (2, C). The result holds the sums over all ranks. `mine`
  // does not change.
  virtual Array sum_over_ranks(const Array& mine) = 0;
};

}  // namespace tandem
