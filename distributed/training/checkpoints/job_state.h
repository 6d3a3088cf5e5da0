// JobState: the objects that a job consists of, whose state goes into its checkpoints.
#pragma once

#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// What it refers to must outlive it.
class JobState {
 public:
  JobState(ProcessGroup& group, DistributedDataParallel& ddp, optim::GradScaler& scaler);

  void add(optim::Optimizer& optimizer);
  // Anything else with a state dict. The same on all ranks.
  struct Kept {
    std::string name;
    std::function<std::vector<NamedArray>()> state_dict;
    std::function<void(const std::vector<NamedArray>&)> load_state_dict;
  };
  void keep(Kept kept);

  // Error when a parameter of the model is not finite, or a buffer NaN: such a checkpoint would be useless.
  void require_finite() const;
  // The arrays of `state` that all ranks have alike. For rank 0.
  void fill(TrainingState& state) const;
  // The state that only this rank has. The arguments are TrainingState's of the same names. Collective.
  std::vector<NamedArray> of_rank(const std::string& generator, const std::string& generator_now) const;
  // Brings the objects, and default_generator(), to what a checkpoint says, and drops its arrays. `note` is told which
  // parts no longer fit this job. Sets the generators of `state` to those of this rank. Collective.
  void restore(TrainingState& state, const std::function<void(const std::string&)>& note);
  // Copies all that training changes, and default_generator(). Returns the function that restores them bit for bit.
  [[nodiscard]] std::function<void()> remember();

 private:
  void restore_kept(const std::vector<NamedArray>& arrays, const std::function<void(const std::string&)>& note);
  void restore_ranks(TrainingState& state, const std::function<void(const std::string&)>& note);

  ProcessGroup& group_;
  DistributedDataParallel& ddp_;
  optim::GradScaler& scaler_;
  optim::Optimizer* optimizer_ = nullptr;  // the first one
  std::vector<Kept> kept_;                 // further optimizers are among them
  int optimizers_ = 0;
};

}  // namespace tandem::distributed
