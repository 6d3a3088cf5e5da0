// SyncBatchNorm: batch normalisation by the statistics of the whole batch when each rank holds a part of it.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/batch_norm.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::distributed {

// Makes every BatchNorm2d in `model` share its statistics over `group`:
//
//   Net model;
//   convert_sync_batch_norm(model, group);
//   DistributedDataParallel ddp(model, group);
//
// The modules stay the same objects with the same parameters, buffers and names, so it does not matter whether an
// optimizer, a reference to a layer or a state dict was made before or after, and Sequential goes on fusing. With a
// group of one the model is, or becomes again, a plain one. Not collective.
//
// In training, forward is one all-gather of (mean, m2, count) per layer, where m2 is the sum of squared deviations;
// every rank combines them alike, in f64 (Chan, Golub, LeVeque, 1979), so running statistics are equal to the bit on
// all ranks. Backward is one all-reduce of (sum of dy, sum of dy * xhat), left out where the layer's input needs no
// gradient. Parts may differ in size, and be empty: that rank still takes part. weight and bias must be equal on all
// ranks; their gradients are this rank's share, as with any layer, and DistributedDataParallel averages them. In
// evaluation nothing is exchanged.
//
// The exchanges block, and happen in the order of the graph. DistributedDataParallel starts its buckets in an order
// that the graph gives too, so both may use one group as long as all ranks run the same graph, batch sizes aside. An
// exchange then waits behind a bucket that was started just before. A subgroup of all ranks has its own queue:
// exchanges overtake buckets, and the ranks' graphs may differ in whatever lies between the batch norms.
void convert_sync_batch_norm(nn::Module& model, const std::shared_ptr<ProcessGroup>& group);

// One such layer, for models that are never without a group.
class SyncBatchNorm : public nn::BatchNorm2d {
 public:
  SyncBatchNorm(std::int64_t channels, const std::shared_ptr<ProcessGroup>& group,
                const nn::BatchNormOptions& options = {});
};

// The exchange behind both, for those who call batch_norm() themselves; null for a group of one. `layer` appears in
// errors.
std::shared_ptr<BatchNormExchange> batch_norm_exchange(const std::shared_ptr<ProcessGroup>& group,
                                                       const std::string& layer);

}  // namespace tandem::distributed
