// The training that the learning-rate finder makes: a few steps that are taken back.
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

// What the constructor gets must outlive the object. All ranks make the same steps. For one sweep.
class LrTrial {
 public:
  LrTrial(const TrainingOptions& options, ProcessGroup& group, DistributedDataParallel& ddp, Update& update,
          FiniteCheck& check, JobState& state, data::Loader& loader, std::function<Tensor(const data::Batch&)> loss_of);

  // Afterwards the model, the optimizers, what the program keeps and default_generator() have the bits of before.
  LrCurve run(const LrSweep& sweep);
  // A sweep for --find-lr: its picture, and what it suggests as a line for people. Collective.
  void show(TrainingLog& log);

 private:
  // Returns the mean loss over the ranks before the step. If no batch of the step has a loss, that is the loss of the
  // step before. NaN when something was not finite.
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
  const std::vector<double> lrs_;  // the program's own
  Progress progress_;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();  // of the last step that had a loss
  std::int64_t epoch_ = 0;
  std::optional<data::Loader::Iterator> batch_;
};

}  // namespace tandem::distributed
