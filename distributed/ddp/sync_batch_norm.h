// SyncBatchNorm: batch normalisation with the statistics of the whole batch, of which each rank holds a part.
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
// The modules stay the same objects with the same parameters, buffers and names. An optimizer, a reference to a layer
// or a state dict may therefore be made before or after the call, and Sequential still fuses batch norms. With a group
// of one rank, the batch norms become, or stay, plain ones. The call is not collective.
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
// All ranks do the same computation with the same numbers, so mean, m2 / count (the variance) and the running
// statistics are bitwise identical on all ranks. Each rank then normalises its own part: xhat = (x - mean) / sqrt(m2 /
// count + eps) and y = weight * xhat + bias.
//
// Backward: one all-reduce per layer, which sums two values for each channel over the ranks, S1 = sum(dy) and
// S2 = sum(dy * xhat). Each rank then computes the gradient of its own part:
//
//   dx = weight / sqrt(m2 / count + eps) * (dy - S1 / count - xhat * S2 / count)
//
// S1 and S2 are summed over the ranks, not averaged. Every x affects the common mean and variance, and so the loss of
// every rank. dx is therefore the gradient of the sum of all ranks' losses. The gradients of weight and bias are this
// rank's own sums (sum(dy * xhat) and sum(dy)), as in any layer. DistributedDataParallel averages them like all
// gradients of parameters. That average turns the sum of the losses into their mean exactly once. If the layer's input
// needs no gradient, there is no all-reduce.
//
// The parts may differ in size. A rank with an empty part still takes part in the exchanges. weight and bias must be
// equal on all ranks. In evaluation, nothing is exchanged.
//
// Each exchange blocks the calling thread, and the exchanges happen in the order of the graph. DistributedDataParallel
// also starts its buckets in an order that depends on the graph. Both may therefore use the same group, as long as all
// ranks run the same graph (batch sizes may differ). An exchange then waits for a bucket that was started just before.
// A subgroup of all ranks has its own queue. With a subgroup, exchanges overtake buckets, and the ranks' graphs may
// differ between the batch norms.
void convert_sync_batch_norm(nn::Module& model, const std::shared_ptr<ProcessGroup>& group);

// A BatchNorm2d that shares its statistics over `group`, for models that always have a group.
class SyncBatchNorm : public nn::BatchNorm2d {
 public:
  SyncBatchNorm(std::int64_t channels, const std::shared_ptr<ProcessGroup>& group,
                const nn::BatchNorm2dOptions& options = {});
};

// Returns the exchange of a batch norm, for code that calls batch_norm() itself. Null for a group of one rank. `layer`
// appears in errors.
std::shared_ptr<BatchNormExchange> batch_norm_exchange(const std::shared_ptr<ProcessGroup>& group,
                                                       const std::string& layer);

}  // namespace tandem::distributed
