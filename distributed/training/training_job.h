// TrainingJob: the parts of a training loop, from which Trainer::fit() and Trainer::batches() are built.
#pragma once

#include <tandem/data/loader.h>
#include <tandem/distributed/training/checkpoints/checkpoint_folder.h>
#include <tandem/distributed/training/checkpoints/job_state.h>
#include <tandem/distributed/training/finite_check.h>
#include <tandem/distributed/training/lr_trial.h>
#include <tandem/distributed/training/metrics/evaluation.h>
#include <tandem/distributed/training/metrics/losses.h>
#include <tandem/distributed/training/metrics/profile_window.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/distributed/training/metrics/training_log.h>
#include <tandem/distributed/training/options/stop_request.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/distributed/training/strategy.h>
#include <tandem/distributed/training/update.h>
#include <tandem/optim/grad_scaler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// The functions are in the order of their use. All are collective.
class TrainingJob {
 public:
  using Evaluate = Evaluation::Evaluate;
  using LossOf = Strategy::LossOf;

  // Moves the model to its device, and copies rank 0's values to all ranks. `make_replica` may be empty.
  TrainingJob(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
              const DataParallel::Factory& make_replica);

  void use(optim::Optimizer& optimizer, Update::MakeSchedule schedule, Update::Counts counts);
  // Opens the files, and with --resume, resumes from a checkpoint.
  void begin(data::Loader& loader, const Evaluate& evaluate);
  // Begins the next epoch. Returns false if all epochs are done or a limit has been reached.
  bool next_epoch();
  // Moves the batch to the device. Call it before the forward pass.
  void begin_batch(data::Batch& batch);
  // Returns the loss of the batch, computed by the model or by its replicas.
  Tensor loss(const data::Batch& batch, const LossOf& loss_of);
  // Runs the backward pass, and the step if the batch completes one. On a GPU, it may be recorded.
  void update(const Tensor& loss) { update_(loss, *progress_); }
  // Does the work that is due after each batch. Returns false after the last batch of the epoch, or if a limit has been
  // reached.
  bool count(const Array& loss);
  // Evaluates, writes the epoch's metrics, and writes a checkpoint if one is due.
  void end_epoch();
  // Writes the final model.
  void finish();

  // Returns a trial for the learning-rate finder. Call it before begin(). The arguments must outlive the result.
  LrTrial lr_trial(data::Loader& loader, const LossOf& loss_of);
  // Does the work of --find-lr: draws an image, and does not train.
  void show_lr(data::Loader& loader, const LossOf& loss_of);

  // Prints a line if the program has left its loop over the batches before the end.
  void say_if_left();

  // Prints a line for the user. Lines from before begin() are printed after the first line of the training.
  void note(const std::string& line);
  void progress(const std::string& what, std::int64_t done, std::int64_t all) { log_.progress(what, done, all); }

  const TrainingOptions& options() const { return options_; }
  const Strategy& strategy() const { return strategy_; }
  DistributedDataParallel& ddp() { return strategy_.ddp(); }
  EventFile* events() { return evaluation_.is_trying_out() ? nullptr : log_.events(); }
  bool is_trying_out() const { return evaluation_.is_trying_out(); }
  const Position& position() const;
  Update& updates() { return update_; }
  FiniteCheck& check() { return check_; }
  JobState& state() { return job_; }
  void after_step(std::function<void()> call) { after_step_.push_back(std::move(call)); }

 private:
  // Returns whether a limit other than the number of epochs ends the training.
  bool ends_early() const;
  bool is_over() const { return progress_->position().epoch >= options_.epochs || ends_early(); }
  bool step_is_multiple_of(std::int64_t n) const { return n > 0 && progress_->position().step % n == 0; }

  void check_same_data(const data::Loader& loader);
  void open_outputs();
  void resume();
  // Gives the model the means of the ranks' weights, if they differ. The next batch brings back those of this rank.
  void use_mean();
  std::vector<Metric> evaluate();
  bool consider(const std::vector<Metric>& figures);  // see Evaluation
  void end_step();
  void log_step();
  [[noreturn]] void stop_for(int signal, bool is_saved);
  TrainingState describe() const;  // the current state, for a checkpoint
  void save();
  void finish_save();  // waits until the checkpoint of the last save() is durable

  const TrainingOptions& options_;
  const std::shared_ptr<ProcessGroup> group_;
  Strategy strategy_;
  optim::GradScaler scaler_{{.enabled = options_.dtype == DType::f16}};
  FiniteCheck check_{options_, *group_, strategy_.ddp(), scaler_};
  Update update_{strategy_.ddp(), scaler_, check_};
  JobState job_{*group_, strategy_.ddp(), scaler_, strategy_.zero()};
  TrainingLog log_;
  Evaluation evaluation_{options_, group_, strategy_.ddp(), log_};
  ProfileWindow profile_;
  StopRequest stop_;
  CheckpointFolder folder_{options_, *group_, job_, [this](const std::string& line) { log_.note(line); }};
  Losses losses_{options_.log_every > 0};
  std::vector<std::function<void()>> after_step_;
  std::vector<std::string> notes_;  // from before begin()

  // Valid from begin() on.
  std::optional<Progress> progress_;
  data::Loader* loader_ = nullptr;
  std::string epoch_generator_;    // default_generator().state() when this epoch began
  std::string resumed_generator_;  // of a checkpoint in the middle of an epoch; empty: none
  bool time_is_up_ = false;        // whether --max-time is over
  bool is_finished_ = false;       // whether finish() has been called
  Generator generator_;            // default_generator() as the last batch left it
  std::int64_t begin_ = 0;         // the batch with which this process began the epoch
  double total_before_ = 0;        // the sum of this rank's losses in this epoch before the job was resumed
};

}  // namespace tandem::distributed
