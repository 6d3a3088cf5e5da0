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
// optimizer, a reference to a layer or a state dict was made before or after, and Sequential still fuses batch norms.
// With a group of one rank the model stays, or becomes again, a model with plain batch norms. This call is not
// collective.
//
// Forward, in training: one all-gather per layer. Rank r holds the part x_r (N_r, C, H, W). It sends 2 * C + 1 numbers
// in the dtype of the statistics: mean_r and m2_r for each of the C channels, and count_r once, because it is the same
// for all channels.
//
//   count_r = N_r * H * W,   mean_r = sum(x_r) / count_r,   m2_r = sum((x_r - mean_r)^2)
//
// Every rank combines all parts in one kernel, in f64 (Chan, Golub, LeVeque, 1979):
//
//   count = sum_r count_r
//   mean  = sum_r count_r * mean_r / count
//   m2    = sum_r (m2_r + count_r * (mean_r - mean)^2)
//
// All ranks compute the same from the same numbers, so mean, m2 / count (the variance) and the running statistics are
// bitwise identical on all ranks. Each rank then normalises its own part: xhat = (x - mean) / sqrt(m2 / count + eps)
// and y = weight * xhat + bias.
//
// Backward: one all-reduce per layer, which sums two values for each channel over the ranks, S1 = sum(dy) and
// S2 = sum(dy * xhat). Each rank then computes the gradient of its own part:
//
//   dx = weight / sqrt(m2 / count + eps) * (dy - S1 / count - xhat * S2 / count)
//
// S1 and S2 are summed over the ranks, not averaged. Every x moves the common mean and variance, and so the loss of
// every rank; dx is the gradient of the sum of all ranks' losses. The gradients of weight and bias are this rank's own
// sums (sum(dy * xhat) and sum(dy)), as with any layer, and DistributedDataParallel averages them as it averages all
// gradients of parameters: that average turns the sum of the losses into their mean, once. The all-reduce is left out
// where the layer's input needs no gradient.
//
// The parts may differ in size. A part may be empty: its rank still takes part in the exchanges. weight and bias must
// be equal on all ranks. In evaluation nothing is exchanged.
//
// Each exchange blocks the calling thread, and the exchanges happen in the order of the graph. DistributedDataParallel
// starts its buckets in an order that the graph gives too. Both may therefore use one group, as long as all ranks run
// the same graph (batch sizes may differ). An exchange then waits behind a bucket that was started just before. A
// subgroup of all ranks has its own queue: there, exchanges overtake buckets, and the ranks' graphs may differ in
// whatever lies between the batch norms.
void convert_sync_batch_norm(nn::Module& model, const std::shared_ptr<ProcessGroup>& group);

// A BatchNorm2d that shares its statistics over `group`, for models that always have a group.
class SyncBatchNorm : public nn::BatchNorm2d {
 public:
  SyncBatchNorm(std::int64_t channels, const std::shared_ptr<ProcessGroup>& group,
                const nn::BatchNorm2dOptions& options = {});
};

// The exchange that both of the above use, for code that calls batch_norm() itself. Null for a group of one rank.
// `layer` appears in errors.
std::shared_ptr<BatchNormExchange> batch_norm_exchange(const std::shared_ptr<ProcessGroup>& group,
                                                       const std::string& layer);

}  // namespace tandem::distributed
