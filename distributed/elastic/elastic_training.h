// ElasticTraining: data parallel training that continues when ranks die and when new ones arrive.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/elastic/membership.h>
#include <tandem/distributed/groups/group_backend.h>
#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/module.h>
#include <tandem/optim/optimizer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::distributed {

struct ElasticOptions {
  std::int64_t samples = 0;     // in the data set
  std::int64_t batch_size = 1;  // samples of each rank in a step
  std::int64_t epochs = 1;
  bool shuffle = true;     // whether samples come in random order, a different one in each epoch
  std::uint64_t seed = 0;  // of the random order
  int min_ranks = 1;       // with fewer, training waits for newcomers, and fails after twice the timeout
  // A rank that does not take part for this long, for example because it is stopped, is left out. It must be more than
  // twice as long as a step, and as anything else that the program does between two steps.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  GroupBackend backend = GroupBackend::automatic;  // of the process groups: automatic, shm or gloo
};

// Trains `model` on all processes that `tandemrun --elastic` has started on this host:
//
//   ElasticTraining training(model, optimizer, {.samples = dataset.size(), .batch_size = 50, .epochs = 5});
//   while (training.step([&](std::span<const std::int64_t> samples) {
//     auto [images, labels] = dataset.get(samples);
//     return cross_entropy(model(images), labels);
//   })) {}
//
// Without a failure, the steps are those of DistributedDataParallel. When a rank dies, the others discard the step in
// which they notice it, form a process group without that rank (a new generation, see Membership), and repeat the step
// with the samples divided among them. When the launcher has started a rank again, it joins in the same way: it gets
// the parameters, buffers, optimizer state and position of rank 0.
//
// A step is done on a rank when all of its gradients have been averaged. Only then does the rank update its weights. An
// average is complete only if all ranks have contributed, and a rank contributes to a step only after the one before.
// So two ranks never differ by more than one step. If a rank dies at the end of a step, some of the others may have
// done that step, and some not. In the next generation, those that have not copy the state of those that have, so the
// step counts once. For this reason, no step is voted on, and a step costs nothing more than with
// DistributedDataParallel. (In PyTorch, torchft has this purpose. There, the ranks vote in each step:
// Manager.should_commit.)
//
// Samples: an epoch is a permutation of the data set, the same as a DistributedSampler's. Each step takes the next
// batch_size * size() samples of it and deals them to the ranks in turn. A step that has not been done has taken none.
// So each sample is in exactly one step of each epoch, whatever the number of ranks. A last sample that would be alone
// in its step belongs to the step before. If there are too few samples for two on each rank, the first ranks get two
// each, and the last ranks none. Every sample of a step has the same weight in its gradient.
//
// Every process must build the same model and optimizer, and pass the same options. If the program changes the learning
// rate, it must compute it from steps() or epoch() before each step, because a newcomer has missed earlier changes. The
// random numbers of default_generator() are each process's own. The model may not contain layers that communicate, such
// as SyncBatchNorm, and lives on the CPU. Only one thread may use the object. No rank waits for another between two
// steps, so a rank may evaluate the model or save it there.
class ElasticTraining : NoCopy {
 public:
  // Returns the mean loss of the samples with these numbers, as a scalar. It is called again if the step is repeated.
  using MeanLoss = std::function<Tensor(std::span<const std::int64_t> samples)>;

  // Waits until this process is a member of the job. Without any launcher, it is the only one. Throws a UsageError
  // under a launcher that is not `tandemrun --elastic`, an Error for options that can't be used or differ from rank
  // 0's, and the Errors of Membership::join(). `model` and `optimizer` must outlive this object.
  ElasticTraining(nn::Module& model, optim::Optimizer& optimizer, const ElasticOptions& options);
  ~ElasticTraining();

  // Makes the next step: zero_grad(), `mean_loss`, backward() and the optimizer's step(). Returns false, and does
  // nothing, after the last step. All ranks have then done that step. If `mean_loss` throws, so does step(), and the
  // other ranks continue without this process.
  bool step(const MeanLoss& mean_loss);

  std::int64_t epoch() const { return position_.epoch; }     // of the next step, counted from 0
  std::int64_t steps() const { return position_.steps; }     // those that are done
  int rank() const { return group_ ? group_->rank() : -1; }  // may change with each step; -1: see is_lead()
  int size() const { return group_ ? group_->size() : 0; }
  // Returns whether this process is the one that prints and saves. It never is on a process that came after the end.
  bool is_lead() const { return group_ ? rank() == 0 : was_lead_; }

 private:
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t samples = 0;  // of this epoch, in the steps that are done
    std::int64_t steps = 0;
  };
  // The samples of the next step.
  struct Share {
    std::int64_t all;                // on all ranks
    std::vector<std::int64_t> mine;  // their numbers
  };

  void connect();
  void with_group(const std::function<void()>& act);
  bool join();
  void connect_members();
  void receive_state();
  void leave();
  Share next_share();
  void compute(const MeanLoss& mean_loss, const Share& share);
  Tensor zero_loss() const;
  void advance(std::int64_t samples);
  void save(std::size_t tensors);

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  const ElasticOptions options_;

  std::shared_ptr<Store> watch_store_;      // the connection in which ChangeWatch waits; null without a launcher
  std::unique_ptr<Membership> membership_;  // null without a launcher
  Observers observers_;
  std::atomic<bool> has_changed_ = false;  // whether the generation has to end
  std::shared_ptr<ProcessGroup> group_;    // of the current generation, as is ddp_
  std::unique_ptr<DistributedDataParallel> ddp_;
  bool was_lead_ = false;  // in the latest generation that this process has left
  int failures_ = 0;       // generations that have ended since the last step

  Position position_;
  bool has_weights_ = false;  // whether the model is the one after position_.steps
  bool is_over_ = false;
  std::vector<std::int64_t> order_;  // the samples of epoch order_epoch_
  std::int64_t order_epoch_ = -1;
  // Values to which a failed step returns: of the first saved_ of these tensors, which are the buffers and then the
  // parameters.
  std::vector<NamedTensor> tensors_;
  std::vector<Array> values_;
  std::size_t buffers_, saved_ = 0;
};

}  // namespace tandem::distributed
