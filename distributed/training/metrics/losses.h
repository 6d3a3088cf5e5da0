// Losses: sums the losses of this rank's batches over an epoch and over a step. The sums stay on the device.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/metrics/progress.h>

namespace tandem::distributed {

class Losses {
 public:
  // `of_steps` is whether step_mean() will be called.
  explicit Losses(bool of_steps) : of_steps_(of_steps) {}

  // Begins an epoch. `before` is the sum of the losses of its batches before the job was resumed.
  void begin_epoch(double before, Device device);
  // Adds the loss, () f32, of the batch at `progress`. If the batch has no loss, all sums and means skip it.
  void add(const Array& loss, const Progress& progress, bool has_loss = true);

  // Returns this rank's sum in the epoch so far, () f32.
  const Array& of_epoch() const { return of_epoch_; }
  // Returns the sum over all ranks, on rank 0. NaN if no batch had a loss. Collective. Waits for the device.
  double total(ProcessGroup& group) const;
  // Returns the mean loss of the step's samples on all ranks. NaN if no batch of the step had a loss. Collective. Waits
  // for the device.
  double step_mean(ProcessGroup& group) const;

 private:
  const bool of_steps_;
  Array of_epoch_ = ops::scalar(0);
  Array of_step_;                    // this rank's mean in the step so far
  int with_loss_ = 0, without_ = 0;  // batches of the epoch
  int with_loss_in_step_ = 0;        // batches of the step
  double missing_in_step_ = 0;       // the weight of the batches without a loss
};

}  // namespace tandem::distributed
