// FiniteCheck: checks whether the losses and gradients of a training are finite, and finds the operation at fault if
// not.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/random/random.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Thrown if a loss or gradient is NaN or infinite.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// On the CPU, the host checks each number at once. A GPU runs behind the host, which must not wait for it after each
// step. The GPU therefore sums the numbers, and the host checks the sum later. From the first step whose gradients are
// not finite, the optimizers skip all steps. (If only the loss is not finite, they skip none.) With f16, nothing is
// checked here, because the GradScaler skips steps whose gradients are not finite.
//
// To name the operation, the check recomputes the failed step. The weights have not changed since that step, the loader
// returns its batches again, as after a resume, and the random number generator is restored. For this purpose, the
// check stores the generator's state and the position of each step since the last check: 5 KiB each, for at most
// `most_steps` steps. If this rank's own numbers are finite, the Error is a PeerError, so the launcher names another
// rank.
//
// The arguments of the constructor and the functions must outlive the object. Only one thread may use it.
class FiniteCheck {
 public:
  using LossOf = std::function<Tensor(nn::Module&, const data::Batch&)>;

  FiniteCheck(const TrainingOptions& options, ProcessGroup& group, DistributedDataParallel& ddp,
              const optim::GradScaler& scaler)
      : options_(options), group_(group), ddp_(ddp), scaler_(scaler) {}

  // On a GPU, makes the optimizer skip its steps once a gradient is not finite.
  void guard(optim::Optimizer& optimizer);
  // Sets the function that recomputes the loss of a batch. Without it, the error names no operation.
  void set_loss(LossOf loss_of) { loss_of_ = std::move(loss_of); }
  // Sets the function that says which batches have no loss. Their loss is a mean over nothing, and may be NaN.
  void leave_out(std::function<bool(const data::Batch&)> is_empty) { is_empty_ = std::move(is_empty); }
  bool is_empty(const data::Batch& batch) const { return is_empty_ && is_empty_(batch); }

  // Called before a loop over the loader that is an epoch. `generator` is the argument of Loader::skip().
  void begin_epoch(data::Loader& loader, const std::string& generator);
  // Called when a step begins with the batch at `progress`. `generator` is default_generator() before the loader made
  // that batch, or null for the first batch of the loop over the loader.
  void begin_step(const Progress& progress, const Generator* generator);
  // Called before take_loss() for this batch.
  void begin_batch(const data::Batch& batch) { has_loss_ = !is_empty(batch); }
  bool has_loss() const { return has_loss_; }  // whether the current batch has a loss
  // Pass the loss of a batch of the current step, and a norm of the step's gradients, one number each. On a CPU, the
  // host checks the number at once. If it is not finite, take_loss() throws NotFinite. take_norm() returns a text for
  // fail() instead, because the caller may hold only shards of the parameters; an empty text means that it is finite.
  void take_loss(const Array& loss);
  [[nodiscard]] std::string take_norm(const Array& norm);
  // Called when the step is over. `losses` is the sum of the losses of the epoch so far, () f32. Calls look() after
  // every most_steps steps.
  void end_step(const Array& losses);
  // Throws NotFinite if a number of a step since the last look() is not finite. Waits for the GPU. Call it only between
  // two steps.
  void look();

  // Throws NotFinite for the current step, or a PeerError if this rank's own numbers are finite. `what` describes the
  // problem.
  [[noreturn]] void fail(const std::string& what);

 private:
  // The data for recomputing a step.
  struct Start {
    Progress progress;
    std::optional<Generator> generator;
    Array sum{};  // of the norms so far and the losses of the epoch; undefined before the end of the step
  };
  static constexpr std::size_t most_steps = 128;  // chosen: the wait for a GPU is then negligible

  std::string problem_of(const Array& number, const char* name) const;
  [[noreturn]] void fail(const std::string& what, const Start& step);
  std::optional<std::string> find_operation(const Start& step);  // nullopt: this rank's numbers are finite
  void compute_again(const Start& step);

  const TrainingOptions& options_;
  ProcessGroup& group_;
  DistributedDataParallel& ddp_;
  const optim::GradScaler& scaler_;
  LossOf loss_of_;
  std::function<bool(const data::Batch&)> is_empty_;
  bool has_loss_ = true;

  data::Loader* loader_ = nullptr;
  std::int64_t epoch_ = 0;      // of the loader
  Generator epoch_generator_;   // default_generator() when the epoch began
  std::string skip_generator_;  // the argument of Loader::skip() at that time
  std::vector<Start> steps_;    // the steps since the last look(); the last one is running
  Array norms_;                 // the sum of all norms, () f32; undefined: the host checks each number
};

}  // namespace tandem::distributed
