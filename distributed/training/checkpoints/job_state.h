// JobState: the objects of a job whose state its checkpoints contain.
#pragma once

#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/diloco.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {

// These objects must outlive the JobState.
class JobState {
 public:
  // `zero` is null unless the optimizer state is divided among the ranks.
  JobState(ProcessGroup& group, DistributedDataParallel& ddp, optim::GradScaler& scaler,
           ZeroRedundancy* zero = nullptr);

  void add(optim::Optimizer& optimizer);
  // The ranks train alone between outer steps. Each rank then has its own optimizer state, loss scale and weights. The
  // model must hold the means of the weights (DiLoCo::use_mean) when a checkpoint is written.
  void add(DiLoCo& diloco);
  // Any other object with a state dict. The state must be the same on all ranks.
  struct Kept {
    std::string name;
    std::function<std::vector<NamedArray>()> state_dict;
    std::function<void(const std::vector<NamedArray>&)> load_state_dict;
  };
  void keep(Kept kept);

  // Throws an Error if a parameter of the model is not finite or a buffer is NaN, because such a checkpoint would be
  // useless.
  void require_finite() const;
  // Sends what is divided among the ranks to rank 0, or, if `keeps_shards`, makes it a part of of_rank(). Call it
  // before these two. Collective.
  void gather(bool keeps_shards = false);
  // Returns the elements of divided arrays that restore() needs on this rank.
  Share share() const { return zero_ ? Share{group_.rank(), group_.size()} : Share{}; }
  // Sets the arrays of `state` that are not of single ranks. Only rank 0 calls it.
  void fill(TrainingState& state);
  // Returns the state that only this rank has. The arguments are the members of TrainingState with the same names.
  // Collective.
  std::vector<NamedArray> of_rank(const std::string& generator, const std::string& generator_now);
  // Restores the objects and default_generator() from a checkpoint, and drops its arrays. Calls `note` for parts that
  // no longer fit this job. Sets the generators of `state` to those of this rank. Collective.
  void restore(TrainingState& state, const std::function<void(const std::string&)>& note);
  // Copies everything that training changes, and default_generator(). Returns a function that restores it bit for bit.
  [[nodiscard]] std::function<void()> remember();

 private:
  template <class T>
  static Kept as_kept(const std::string& name, T& object);
  void restore_kept(const std::vector<NamedArray>& arrays, const std::function<void(const std::string&)>& note);
  void restore_ranks(TrainingState& state, const std::function<void(const std::string&)>& note);
  void restore_own(std::vector<NamedArray>& arrays);

  // The beginning of the names of an optimizer's arrays in a checkpoint.
  std::string prefix_of(std::size_t optimizer) const;
  // Throws an Error if a divided array of a checkpoint has another layout than its parameter has now.
  void check_layouts(const TrainingState& state) const;

  // Return or load the state of an optimizer. It is whole between gather() and fill(), otherwise that of this rank.
  std::vector<NamedArray> state_of(const optim::Optimizer& optimizer) const;
  void load(optim::Optimizer& optimizer, const std::vector<NamedArray>& state) const;

  ProcessGroup& group_;
  DistributedDataParallel& ddp_;
  optim::GradScaler& scaler_;
  ZeroRedundancy* const zero_;
  std::vector<optim::Optimizer*> optimizers_;
  std::vector<Kept> kept_;   // includes all optimizers but the first
  std::vector<Kept> inner_;  // the scaler and all optimizers
  std::map<const optim::Optimizer*, std::vector<NamedArray>> gathered_;
  std::vector<NamedArray> shards_;         // from gather(true) to of_rank()
  std::map<std::string, Layout> divided_;  // from gather(true) to fill()
  DiLoCo* diloco_ = nullptr;
};

}  // namespace tandem::distributed
