// FiniteCheck: whether the losses and gradients of a training are finite, and which operation is at fault when they are
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

// A loss or gradient is NaN or infinite.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// On the CPU the host looks at each number at once. A GPU runs behind the host, which must not wait for it after each
// step. So the GPU adds the numbers up, and the host looks later. From the first step on whose gradients are not
// finite, the optimizers of the training leave out all steps. (A loss that is not finite, with gradients that are,
// leaves out none.) With f16 nothing is checked here, because the GradScaler leaves out steps whose gradients are not
// finite.
//
// To name the operation, the step that failed is computed once more: the weights are still those that it had, the
// loader gives its batches again, as after a resumption, and the generator of random numbers gets the state that it
// had. For each step since the last look that state is kept, and where the step was: 5 KiB, of at most `most_steps`
// steps. Where this rank's own numbers turn out finite, the Error is a PeerError, so that the launcher names another.
//
// What the constructor and the functions get must outlive the object. For one thread.
class FiniteCheck {
 public:
  using LossOf = std::function<Tensor(nn::Module&, const data::Batch&)>;

  FiniteCheck(const TrainingOptions& options, ProcessGroup& group, DistributedDataParallel& ddp,
              const optim::GradScaler& scaler)
      : options_(options), group_(group), ddp_(ddp), scaler_(scaler) {}

  // From here on, on a GPU, the optimizer leaves out its steps once a gradient was not finite.
  void guard(optim::Optimizer& optimizer);
  // How the loss of a batch is computed once more. Without it no operation is named.
  void set_loss(LossOf loss_of) { loss_of_ = std::move(loss_of); }
  // Says which batches have no loss. Their loss is a mean over nothing, and may be NaN.
  void leave_out(std::function<bool(const data::Batch&)> is_empty) { is_empty_ = std::move(is_empty); }
  bool is_empty(const data::Batch& batch) const { return is_empty_ && is_empty_(batch); }

  // The next loop over the loader is an epoch. `generator`: what Loader::skip() was given.
  void begin_epoch(data::Loader& loader, const std::string& generator);
  // A step begins with the batch that `progress` is at. `generator`: default_generator() before the loader made that
  // batch; null for the first batch of the loop over the loader.
  void begin_step(const Progress& progress, const Generator* generator);
  // The next take_loss() is for this batch.
  void begin_batch(const data::Batch& batch) { has_loss_ = !is_empty(batch); }
  bool has_loss() const { return has_loss_; }  // of that batch
  // The loss of a batch of the running step, and a norm of the step's gradients: one number each. NotFinite where the
  // host looks at once, and the number is not finite.
  void take_loss(const Array& loss);
  void take_norm(const Array& norm);
  // The step is over. `losses`: the sum of the losses of the epoch so far, () f32. Looks after every most_steps steps.
  void end_step(const Array& losses);
  // For the time between two steps. NotFinite when a number of a step since the last look is not finite. Waits for the
  // GPU.
  void look();

  // Ends the running step as one that is not finite. `what` is said of it.
  [[noreturn]] void fail(const std::string& what);

 private:
  // What a step needs to be computed once more.
  struct Start {
    Progress progress;
    std::optional<Generator> generator;
    Array sum{};  // of the norms so far and the losses of the epoch; undefined before the end of the step
  };
  static constexpr std::size_t most_steps = 128;  // chosen: waiting for a GPU is then no part of the time of a step

  void require_finite(const Array& number, const char* what);
  [[noreturn]] void fail(const std::string& what, const Start& step);
  std::optional<std::string> find_operation(const Start& step);  // nothing: this rank's numbers are finite
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
  std::string skip_generator_;  // what Loader::skip() was given then
  std::vector<Start> steps_;    // those since the last look; the last one is running
  Array norms_;                 // the sum of all norms, () f32; undefined: the host looks at each number
};

}  // namespace tandem::distributed
