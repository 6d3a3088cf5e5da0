// Trainer: a training loop, and what a job needs around it: several processes, 16-bit numbers, accumulation, clipping,
// schedules, checkpoints, figures, and an end that loses nothing.
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

// The options of the command line say how to train; the program says what:
//
//   Net model;
//   Trainer trainer(options, group, model);           // before the optimizer: it moves the model to its device
//   optim::SGD optimizer(model.parameters(), {.lr = lr});
//   trainer.use(optimizer);
//   trainer.fit(
//       loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
//       [&] { return std::vector<Metric>{{"test_accuracy", accuracy(model, tests), Metric::Kind::fraction}}; });
//
// Who wants to write the loop gets the same from
//
//   for (auto& [images, labels] : trainer.batches(loader, evaluation))
//     trainer.step(cross_entropy(model(images), labels));
//
// A step is an optimizer step in every option, figure and function. The loss of a batch is the mean over its samples;
// with --accumulate a step's gradient is the mean over the samples of all its batches, also where the last one is
// short. The model is called directly, not through DistributedDataParallel. Gradients are averaged over the ranks all
// the same.
//
// With --checkpoint, SIGTERM, SIGINT and SIGUSR1 end the training after the running step, with a checkpoint: fit() and
// step() throw StoppedBySignal then. A loss or gradient that is not finite ends it with an Error, before the update and
// before any checkpoint. On a GPU the host finds it out later: with the next figures, before the next checkpoint, or
// after 128 steps. fit() names the operation that is at fault.
//
// All functions but those that say where the training stands are collective: every rank calls them alike. What they are
// given must live until fit() returns or the loop over batches() ends; the options, the group and the model longer than
// the Trainer. For one thread.
class Trainer {
 public:
  // Moves the model to options.device(), converts its batch norms (--sync-bn), and gives all ranks rank 0's values.
  // `make_replica` makes another model like it, for --strategy dp; the values of that one do not matter.
  Trainer(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
          const std::function<std::unique_ptr<nn::Module>()>& make_replica = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // --- before fit() or batches() ---

  // An optimizer that makes the steps. Several make each step together. At least one is needed.
  void use(optim::Optimizer& optimizer);
  // Its learning rate follows a schedule, which is made when the number of steps of the whole training is known:
  //   trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
  // The schedule goes by the part of the training that is done. So a job that resumes with a different number of
  // processes has the learning rate that belongs to its position.
  using MakeSchedule = std::function<optim::Schedule(std::int64_t count)>;
  void use(optim::Optimizer& optimizer, MakeSchedule schedule);
  // The same for a schedule that counts epochs.
  void use_by_epoch(optim::Optimizer& optimizer, MakeSchedule schedule);
  // Gradients are clipped before each step: to a norm of all of them, or each number; see optim/clip.h.
  void clip_norm(double max_norm);
  void clip_value(double max_value);
  // Checkpoints have the state of `object`, too: an average of the model, a callback of the program's own. It has
  // state_dict() and load_state_dict(), the same on all ranks. `name` has no slash.
  template <class T>
  void keep(const std::string& name, T& object) {
    keep(
        name, [&object] { return object.state_dict(); },
        [&object](const std::vector<NamedArray>& state) { object.load_state_dict(state); });
  }
  // Batches for which `is_empty` is true have no loss: in segmentation, all pixels of a batch may be void, and the mean
  // over none is NaN. Such a batch must have gradients of zero, as cross_entropy() gives it. Sums and means of losses
  // leave it out; everything else goes on as with other batches, and ranks still divide their gradients by the number
  // of ranks. `is_empty` gets the batch of one rank, or of one replica, on any device.
  void leave_out(std::function<bool(const data::Batch& batch)> is_empty);
  // Called after each step: to update an average, for example.
  void after_step(std::function<void()> call);

  // --- training ---

  // The loss of a batch on options.device(), one element. On a GPU the step is recorded once and then repeated
  // (optim/graphed_step.h), so it must be a function of the batch and the model; --no-graph calls it each time.
  using LossOf = std::function<Tensor(const data::Batch&)>;
  // The same for any model like the one that the Trainer has: with --strategy dp it gets a replica and a part of the
  // batch. It may run on several threads at once.
  using LossOfModel = std::function<Tensor(nn::Module& model, const data::Batch&)>;
  // The program's figures, the same on all ranks. Called with the model in evaluation mode, without gradients, with
  // the numbers of --dtype. It is also called once before the training, where loaders give one batch only and the
  // figures are dropped: errors are found early.
  using Evaluate = std::function<std::vector<Metric>()>;
  // Trains as the options say, evaluates after epochs and steps as they say, and writes the final model (--save). With
  // --epochs 0 it only evaluates.
  void fit(data::Loader& loader, const LossOf& loss_of, const Evaluate& evaluate = {});
  void fit(data::Loader& loader, const LossOfModel& loss_of, const Evaluate& evaluate = {});

  // Trains for a few steps with growing learning rates, and then brings the model, the optimizers and the random
  // numbers back to the bits that they had. Before fit() or batches(). With --find-lr, fit() does this and draws the
  // result.
  //   optimizer.set_lr(trainer.find_lr(loader, loss_of).suggestion.value_or(0.1));
  LrCurve find_lr(data::Loader& loader, const LossOf& loss_of, const LrSweep& sweep = {});
  LrCurve find_lr(data::Loader& loader, const LossOfModel& loss_of, const LrSweep& sweep = {});

  class Batches;
  // The batches of all epochs, for a range-for. step() must be called once for each. When the range ends, all that
  // fit() does is done; a loop that is left early has no final model.
  Batches batches(data::Loader& loader, Evaluate evaluate = {});
  // Backward, and where the batch completes an optimizer step, the update and what is due after it.
  void step(const Tensor& loss);

  // --- where it stands ---

  std::int64_t epoch() const;  // the epoch that runs, counted from 0
  std::int64_t steps() const;  // of the whole job, with those before it was resumed
  // True while the evaluation before the training runs. Its results are discarded.
  bool is_trying_out() const;
  DistributedDataParallel& ddp();
  // Prints a line for people, on stderr. Lines from before the training begins come after its first line.
  void note(const std::string& line);
  // On a terminal, a few times a second: how far a long work of the program's own is, such as an evaluation. Rank 0
  // speaks; the call need not be collective.
  void progress(const std::string& what, std::int64_t done, std::int64_t all);
  // The event file of --log-dir, on rank 0 from the beginning of the training; null without --log-dir and on other
  // ranks. Its x axis is the step. The Trainer writes "train/...", "epoch/..." and "evaluation/..."; the program may
  // add its own.
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
