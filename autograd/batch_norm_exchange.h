// BatchNormExchange: how batch_norm learns about the parts of its batch that other ranks hold.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem {

// batch_norm calls the exchange on the thread that runs forward or backward. Both calls are collective: every rank
// makes the same calls in the same order, also a rank whose part is empty. distributed/ddp/sync_batch_norm.h implements
// the exchange on a process group.
class BatchNormExchange {
 public:
  virtual ~BatchNormExchange() = default;
  // Each rank passes the statistics of its own part of the batch, packed (2 * C + 1), and gets those of all ranks, in
  // the order of the ranks: (ranks, 2 * C + 1).
  virtual Array gather(const Array& mine) = 0;
  // Each rank passes the gradient sums of its own part, packed (2, C), which stay as they are, and gets the sums over
  // all ranks.
  virtual Array sum_over_ranks(const Array& mine) = 0;
};

}  // namespace tandem
