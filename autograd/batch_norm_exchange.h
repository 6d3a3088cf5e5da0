// BatchNormExchange: how batch_norm learns about the parts of its batch that other ranks hold.
#pragma once

#include <tandem/core/ops.h>

namespace tandem {

// batch_norm calls it on the thread that runs forward or backward. Both calls are collective: every rank makes the same
// ones in the same order, a rank whose part is empty too. distributed/ddp/sync_batch_norm.h implements it on a process
// group.
class BatchNormExchange {
 public:
  virtual ~BatchNormExchange() = default;
  // Of the whole batch, in the dtype in which the part's came.
  virtual ops::BatchNormStats combine(const ops::BatchNormStats& mine) = 0;
  virtual ops::BatchNormSums add(const ops::BatchNormSums& mine) = 0;
};

}  // namespace tandem
