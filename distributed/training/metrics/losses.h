// Losses: the losses of this rank's batches, added up over an epoch and over a step. The sums stay on the device.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/metrics/progress.h>

namespace tandem::distributed {

class Losses {
 public:
  // `of_steps`: whether step_mean() will be asked for.
  explicit Losses(bool of_steps) : of_steps_(of_steps) {}

  // An epoch begins. Its batches before the job was resumed had losses of `before` in all.
  void begin_epoch(double before, Device device);
  // Adds the loss, () f32, of the batch at `progress`. If the batch has no loss, all sums and means leave it out.
  void add(const Array& loss, const Progress& progress, bool has_loss = true);

  // This rank's sum of the epoch, as far as it is done, () f32.
  const Array& of_epoch() const { return of_epoch_; }
  // The sum over all ranks, on rank 0. NaN if no batch had a loss. Collective; waits for the device.
  double total(ProcessGroup& group) const;
  // The mean over the samples of the step, over all ranks. NaN if no batch of the step had a loss. Collective; waits
  // for the device.
  double step_mean(ProcessGroup& group) const;

 private:
  const bool of_steps_;
  Array of_epoch_ = ops::scalar(0);
  Array of_step_;                    // this rank's mean, as far as the step is done
  int with_loss_ = 0, without_ = 0;  // batches of the epoch
  int with_loss_in_step_ = 0;        // batches of the step
  double missing_in_step_ = 0;       // the weight of those without a loss
};

}  // namespace tandem::distributed
