// TrainingRun: what goes on around the loop of a training program: progress, metrics, checkpoints, the final model.
#pragma once

#include <tandem/core/io/event_file.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/training_options.h>
#include <tandem/nn/module.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tandem::distributed {

// A figure of the program's own at the end of an epoch: a fraction, shown in percent, or several that are only written
// to the metrics (nan as null).
struct Metric {
  std::string name;  // "test_accuracy"
  std::variant<double, std::vector<double>> value;
};

// The loop stays in the program:
//
//   TrainingRun run(options, group, model, optimizer, loader);
//   while (run.next_epoch()) {
//     sampler.set_epoch(run.epoch());
//     for (auto& [images, labels] : loader) {
//       const auto local = ddp.no_sync(!run.completes_step());
//       ... forward, (loss / run.parts()).backward() ...
//       if (run.completes_step()) { optimizer.step(); optimizer.zero_grad(); }
//       if (!run.step(loss)) break;
//     }
//     run.end_epoch({{"test_accuracy", accuracy}});
//   }
//   run.finish();
//
// Leaving the inner loop ends the epoch; when it was --max-steps that ended it, a resumed run goes on in the middle.
// Rank 0 speaks: on a terminal a line of progress, and a few lines at the end of each epoch. All methods are
// collective: every rank calls them alike. Everything given must outlive it.
class TrainingRun {
 public:
  // Opens what is to be written, and with --resume puts model, optimizer, scaler, loader and default_generator() back
  // to where the newest checkpoint left them. Errors: a file or folder that can't be written, a checkpoint that doesn't
  // fit.
  TrainingRun(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
              optim::Optimizer& optimizer, data::Loader& loader, optim::GradScaler* scaler = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Begins the next epoch; false when all are done, or as many steps as --max-steps allows.
  bool next_epoch();
  std::int64_t epoch() const;  // the one that runs, from 0
  std::int64_t steps() const;  // of the optimizer, in all: also before a resumed run
  // With --accumulate K an optimizer step takes the gradients of K batches, the last one of an epoch those that are
  // left.
  int parts() const;            // batches of the step that the current batch belongs to
  bool begins_step() const;     // is it the first of them?
  bool completes_step() const;  // is it the last of them?
  // After each batch: adds up the loss (one element; in f32, on its device) and shows progress; where a step is
  // complete writes step lines and checkpoints. False when --max-steps is reached.
  bool step(const Tensor& loss);
  // Shows "Total loss: X", the sum of all ranks' losses of this epoch, and the program's figures; writes the metrics
  // line, the figures of events() and the checkpoint.
  void end_epoch(const std::vector<Metric>& metrics);
  // Shows figures outside of an epoch, those of a model that is only evaluated; writes them as a metrics line of the
  // kind "evaluation", with the epochs and steps behind it, and, as "evaluation/...", to events().
  void show(const std::vector<Metric>& metrics);
  // A line for people, not for programs that read the output.
  void note(const std::string& line);
  // With --log-dir, on rank 0: "train/loss", "train/lr" and "train/images_per_second" of each logged step, and
  // "epoch/..." at the end of each epoch, over the optimizer steps; programs add their own. Null elsewhere.
  EventFile* events();
  // Writes the final model (--save), on rank 0, and waits for that on all ranks.
  void finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tandem::distributed
