// TrainingRun: the work around the loop of a training program: progress, metrics, checkpoints, the final model.
#pragma once

#include <tandem/core/io/event_file.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/metric.h>
#include <tandem/distributed/training/training_options.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// The program writes the loop itself:
//
//   TrainingRun run(options, group, ddp, optimizer, loader);
//   while (run.next_epoch()) {
//     sampler.set_epoch(run.epoch());
//     for (auto& [images, labels] : loader) {
//       const auto local = ddp.no_sync(!run.completes_step());
//       ... forward, (run.weight() * loss).backward() ...
//       if (run.completes_step()) { optimizer.step(); optimizer.zero_grad(); }
//       if (!run.step(loss)) break;
//     }
//     run.end_epoch({{"test_accuracy", accuracy}});
//   }
//   run.finish();
//
// A program may leave the inner loop early, and that ends the epoch. If --max-steps or --max-time was the reason, a
// resumed run goes on in the middle of the epoch. With --checkpoint, SIGTERM, SIGINT and SIGUSR1 end the training after
// the running optimizer step, with a checkpoint: step() throws StoppedBySignal then. Rank 0 prints: on a terminal a
// line of progress, and a few lines at the end of each epoch. All methods are collective: every rank calls them alike.
// What the constructor gets must outlive the run. For one thread.
class TrainingRun {
 public:
  // Opens the files that the run writes. With --resume, sets ddp and its model, optimizer, scaler, loader and
  // default_generator() to their state in the newest checkpoint. Error when a file or folder can't be written, or the
  // checkpoint doesn't fit.
  TrainingRun(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, DistributedDataParallel& ddp,
              optim::Optimizer& optimizer, data::Loader& loader, optim::GradScaler* scaler = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Begins the next epoch. False when all epochs are done, or --max-steps or
  // --max-time is reached.
  bool next_epoch();
  std::int64_t epoch() const;  // the epoch that runs, counted from 0
  std::int64_t steps() const;  // optimizer steps of the whole job, with those before it was resumed
  // With --accumulate K, an optimizer step takes the gradients of K batches. The last step of an epoch takes the
  // batches that are left. These functions are about the batch that step() will be called for next:
  int parts() const;  // the number of batches in its optimizer step
  // Its part of the samples in that step. Losses that are means, times their weights, add up to the mean over all
  // samples of the step, also where the last batch of an epoch is a short one.
  double weight() const;
  bool begins_step() const;     // whether it is the first batch of that step
  bool completes_step() const;  // whether it is the last batch of that step
  // Must be called after each batch. Adds `loss` (one element) to the epoch's sum, which is an f32 on the loss's
  // device, and shows progress. After the last batch of an optimizer step it also writes step lines and checkpoints.
  // Returns false when --max-steps or --max-time is reached.
  bool step(const Tensor& loss);
  // Shows "Total loss: X", the sum of all ranks' losses of this epoch, and the program's figures. Writes the metrics
  // line, the figures of events() and the checkpoint.
  void end_epoch(const std::vector<Metric>& metrics);
  // Shows figures outside of an epoch, such as those of a model that is only evaluated. Writes them as a metrics line
  // of the kind "evaluation", with the epochs and steps done so far, and to events() as "evaluation/...".
  void show(const std::vector<Metric>& metrics);
  // Prints a line for people, on stderr.
  void note(const std::string& line);
  // The event file of --log-dir, on rank 0; null without --log-dir and on other ranks. Its x axis is the optimizer
  // step. The run writes "train/loss", "train/lr" and "train/images_per_second" of each logged step, and "epoch/..." at
  // the end of each epoch. The program may add its own figures.
  EventFile* events();
  // Writes the final model (--save) on rank 0; all ranks wait for it.
  void finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tandem::distributed
