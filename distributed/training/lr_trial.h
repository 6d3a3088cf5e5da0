// LrTrial: makes the training steps of the learning-rate finder, and undoes them.
#pragma once

#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/training/checkpoints/job_state.h>
#include <tandem/distributed/training/finite_check.h>
#include <tandem/distributed/training/lr_finder.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/distributed/training/metrics/training_log.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/distributed/training/update.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace tandem::distributed {

// The constructor's arguments must outlive the object. All ranks make the same steps. An object is for a single sweep.
class LrTrial {
 public:
  LrTrial(const TrainingOptions& options, ProcessGroup& group, DistributedDataParallel& ddp, Update& update,
          FiniteCheck& check, JobState& state, data::Loader& loader, std::function<Tensor(const data::Batch&)> loss_of);

  // Runs a sweep. Afterwards, the model, the optimizers, the objects that the program keeps and default_generator() are
  // restored bit for bit.
  LrCurve run(const LrSweep& sweep);
  // Runs a sweep for --find-lr, draws the image, and prints the suggestion. Collective.
  void show(TrainingLog& log);

 private:
  // Returns the mean loss over the ranks before the step. If no batch of the step has a loss, returns the loss of the
  // previous step. Returns NaN if a number was not finite.
  double step(double lr);
  data::Batch& next_batch();

  const TrainingOptions& options_;
  ProcessGroup& group_;
  DistributedDataParallel& ddp_;
  Update& update_;
  FiniteCheck& check_;
  JobState& state_;
  data::Loader& loader_;
  const std::function<Tensor(const data::Batch&)> loss_of_;
  const std::vector<double> lrs_;  // the program's learning rates
  Progress progress_;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();  // of the last step that had a loss
  std::int64_t epoch_ = 0;
  std::optional<data::Loader::Iterator> batch_;
};

}  // namespace tandem::distributed
