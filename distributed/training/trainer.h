// Trainer: a training loop with everything that a job needs: several processes, 16-bit numbers, accumulation, clipping,
// schedules, checkpoints, metrics, and an end that loses no work.
#pragma once

#include <tandem/core/io/event_file.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/lr_finder.h>
#include <tandem/distributed/training/metrics/metric.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/optim/optimizer.h>
#include <tandem/optim/schedules.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// The command line says how to train, and the program says what:
//
//   Net model;
//   Trainer trainer(options, group, model);           // before the optimizer: it moves the model to its device
//   optim::SGD optimizer(model.parameters(), {.lr = lr});
//   trainer.use(optimizer);
//   trainer.fit(
//       loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
//       [&] { return std::vector<Metric>{{"test_accuracy", accuracy(model, tests), Metric::Kind::fraction}}; });
//
// A program can write the loop itself:
//
//   for (auto& [images, labels] : trainer.batches(loader, evaluation))
//     trainer.step(cross_entropy(model(images), labels));
//
// In every option, metric and function, a step is an optimizer step. The loss of a batch is the mean over its samples.
// With --accumulate, a step's gradient is the mean over the samples of all its batches, even if the last batch is
// smaller. The program calls the model directly, not through DistributedDataParallel. Gradients are still averaged over
// the ranks. With --strategy localsgd and diloco, the ranks average weights instead, after every --inner-steps steps.
// Evaluations, checkpoints and the final model then have the mean of the ranks' weights.
//
// With --checkpoint, SIGTERM, SIGINT, SIGHUP and SIGUSR1 end the training after the current step, with a checkpoint.
// fit() and step() then throw StoppedBySignal. A loss or gradient that is not finite ends the training with an Error,
// before the update and before any checkpoint. On a GPU, the host notices it later: with the next metrics, before the
// next checkpoint, or after 128 steps. fit() names the operation at fault.
//
// All functions except those under "where it stands" are collective: every rank must call them in the same way. Their
// arguments must live until fit() returns or the loop over batches() ends. The options, the group and the model must
// outlive the Trainer. Only one thread may use it.
class Trainer {
 public:
  // Moves the model to options.device(), converts its batch norms (--sync-bn), and copies rank 0's values to all ranks.
  // `make_replica` makes another model of the same structure, for --strategy dp. The values of that model do not
  // matter.
  Trainer(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
          const std::function<std::unique_ptr<nn::Module>()>& make_replica = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // --- before fit() or batches() ---

  // Adds an optimizer. All optimizers make each step together. At least one is required.
  void use(optim::Optimizer& optimizer);
  // Adds an optimizer whose learning rate follows a schedule. The Trainer makes the schedule when the number of steps
  // of the whole training is known:
  //   trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
  // The schedule depends on the fraction of the training that is done. A job that resumes with a different number of
  // processes therefore has the learning rate for its position.
  using MakeSchedule = std::function<optim::Schedule(std::int64_t count)>;
  void use(optim::Optimizer& optimizer, MakeSchedule schedule);
  // Does the same for a schedule that counts epochs.
  void use_by_epoch(optim::Optimizer& optimizer, MakeSchedule schedule);
  // Clip the gradients before each step, by their total norm or by each value; see optim/clip.h.
  void clip_norm(double max_norm);
  void clip_value(double max_value);
  // Saves the state of `object` in checkpoints too, such as an average of the model, or a custom callback. The object
  // must have state_dict() and load_state_dict(), with the same state on all ranks. `name` must not contain a slash.
  template <class T>
  void keep(const std::string& name, T& object) {
    keep(
        name, [&object] { return object.state_dict(); },
        [&object](const std::vector<NamedArray>& state) { object.load_state_dict(state); });
  }
  // Batches for which `is_empty` returns true have no loss. In segmentation, all pixels of a batch may be void, and the
  // mean over no pixels is NaN. Such a batch must have zero gradients, as with cross_entropy(). Sums and means of
  // losses skip it. Otherwise it is treated like any batch: its zeros count in the mean of the gradients, which is over
  // all ranks. `is_empty` is called with the batch of one rank, or of one replica, on any device.
  void leave_out(std::function<bool(const data::Batch& batch)> is_empty);
  // Sets a function that is called after each step, for example to update an average. With --strategy localsgd and
  // diloco, it is called only after the steps in which the ranks average their weights, which are then equal.
  void after_step(std::function<void()> call);

  // --- training ---

  // Returns the loss of a batch on options.device(), one element. On a GPU, the step is recorded once and then replayed
  // (optim/graphed_step.h), so the loss must depend only on the batch and the model. With --no-graph, it is called for
  // each batch.
  using LossOf = std::function<Tensor(const data::Batch&)>;
  // Does the same for any model with the structure of the Trainer's model. With --strategy dp, it is called with a
  // replica and a part of the batch. It may run on several threads at once.
  using LossOfModel = std::function<Tensor(nn::Module& model, const data::Batch&)>;
  // Returns the program's metrics, the same on all ranks. It is called with the model in evaluation mode, without
  // gradients, with the dtype of --dtype. To find errors early, the Trainer also calls it once before the training. In
  // that call, loaders return only one batch, and the metrics are discarded.
  using Evaluate = std::function<std::vector<Metric>()>;
  // Trains and evaluates according to the options, and writes the final model (--save). With --epochs 0, it only
  // evaluates.
  void fit(data::Loader& loader, const LossOf& loss_of, const Evaluate& evaluate = {});
  void fit(data::Loader& loader, const LossOfModel& loss_of, const Evaluate& evaluate = {});

  // Trains for a few steps with growing learning rates, and then restores the model, the optimizers and the random
  // numbers bit for bit. Call it before fit() or batches(). With --find-lr, fit() does this and draws the result.
  //   optimizer.set_lr(trainer.find_lr(loader, loss_of).suggestion.value_or(0.1));
  LrCurve find_lr(data::Loader& loader, const LossOf& loss_of, const LrSweep& sweep = {});
  LrCurve find_lr(data::Loader& loader, const LossOfModel& loss_of, const LrSweep& sweep = {});

  class Batches;
  // Returns the batches of all epochs, for a range-based for loop. The program must call step() once for each batch.
  // When the range ends, everything that fit() does is done. If the program leaves the loop early, there is no final
  // model.
  Batches batches(data::Loader& loader, Evaluate evaluate = {});
  // Runs the backward pass. If the batch completes an optimizer step, also runs the update and the work that is due
  // after it.
  void step(const Tensor& loss);

  // --- where it stands ---

  std::int64_t epoch() const;  // the current epoch, counted from 0
  std::int64_t steps() const;  // steps of the whole job, including those before it was resumed
  // Returns true during the evaluation before the training, whose results are discarded.
  bool is_trying_out() const;
  DistributedDataParallel& ddp();
  // Prints a line for the user on stderr. Lines from before the training are printed after its first line.
  void note(const std::string& line);
  // Shows the progress of the program's own long work, such as an evaluation, on a terminal, a few times a second. Only
  // rank 0 prints. The call need not be collective.
  void progress(const std::string& what, std::int64_t done, std::int64_t all);
  // Returns the event file of --log-dir, on rank 0, from the beginning of the training. Null without --log-dir and on
  // other ranks. The x axis is the step. The Trainer writes "train/...", "epoch/..." and "evaluation/...". The program
  // may add its own entries.
  EventFile* events();

 private:
  struct Running;
  LossOfModel of_model(const LossOf& loss_of) const;
  void keep(const std::string& name, std::function<std::vector<NamedArray>()> state_dict,
            std::function<void(const std::vector<NamedArray>&)> load_state_dict);

  const std::unique_ptr<Running> running_;
};

class Trainer::Batches {
 public:
  class Iterator {
   public:
    data::Batch& operator*() const { return **batch_; }
    Iterator& operator++();
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    friend class Batches;
    Iterator(Running& running, data::Loader& loader) : running_(running), loader_(loader) { find_batch(); }
    void find_batch();
    void end_epoch();

    Running& running_;
    data::Loader& loader_;
    mutable std::optional<data::Loader::Iterator> batch_;  // empty: the training is over
  };
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Trainer;
  Batches(Running& running, data::Loader& loader, Evaluate evaluate)
      : running_(running), loader_(loader), evaluate_(std::move(evaluate)) {}

  Running& running_;
  data::Loader& loader_;
  Evaluate evaluate_;
};

}  // namespace tandem::distributed
