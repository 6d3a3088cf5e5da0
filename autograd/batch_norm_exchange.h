// BatchNormExchange: how batch_norm learns about the parts of its batch that other ranks hold.
#pragma once

#include <tandem/core/ops.h>

namespace tandem {

// batch_norm calls it on the thread that runs forward or backward. Both calls are collective: every rank makes the same ones in
// the same order, a rank whose part is empty too. distributed/sync_batch_norm.h implements it on a process group.
class BatchNormExchange {
 public:
  struct Statistics {
    Array mean, m2;  // (C), of the whole batch, in the dtype in which the part's came
    Array
        count;  // (): values per channel in the whole batch. An Array, so that a device need not be waited for
  };

  virtual ~BatchNormExchange() = default;
  virtual Statistics combine(const ops::BatchNormStats& mine) = 0;
  virtual ops::BatchNormSums add(const ops::BatchNormSums& mine) = 0;
};

}  // namespace tandem
