// DistributedDataParallel: the same model on every rank, each rank's gradients averaged with the others'.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>
#include <tandem/distributed/ddp/reducer.h>
#include <tandem/distributed/ddp/step_rounds.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tandem::distributed {

struct DistributedDataParallelOptions {
  BucketSizes buckets = {};
  Unused unused = Unused::error;  // what becomes of parameters that a backward pass does not come to
  bool compares_weights = true;   // false for a communication hook that does not average in each step
};

// While a NoSync lives, backward passes only add to this rank's gradients.
class NoSync {
 public:
  NoSync(Reducer& reducer, bool on) : reducer_(reducer), before_(reducer.is_synchronising()) {
    if (on) reducer_.set_synchronising(false);
  }
  ~NoSync() { reducer_.set_synchronising(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Reducer& reducer_;
  const bool before_;
};

// DistributedDataParallel observes a model and does not wrap it: the model's names and its state dict stay as they are.
//
//   Net model;
//   DistributedDataParallel ddp(model, group);      // every rank now holds rank 0's parameters and buffers
//   loss(ddp(images), labels).backward();           // every rank now holds the mean gradients
//
// The model must outlive this object. With a group of one rank nothing is sent or copied; an unused parameter is an
// Error there as well. One thread may use it.
//
// Construction is collective. It compares the models of all ranks: if they differ, an Error on every rank shows the
// first difference and which ranks differ. Then it copies rank 0's values to all ranks. Buffers, such as a batch norm's
// running statistics, are rank 0's on every rank whenever a program reads them; see sync_buffers().
//
// Every backward pass that reaches a parameter is a step that all ranks take together. It does not matter how many
// forward passes came before it, or how often they used a parameter.
//
// If the ranks diverge later, they throw an Error. A parameter that is added after construction is found at the next
// forward pass. The first backward pass, and every 100th after it, compare the epoch of the Loader and the bits of the
// weights. These are not compared with join(), or if the ranks' builds or processors differ, because clipping may then
// sum in a different order.
class DistributedDataParallel {
 public:
  DistributedDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                          const DistributedDataParallelOptions& options = {});
  ~DistributedDataParallel() {
    if (evaluation_) evaluation_->keep();
  }

  // Calls the model. The first call in evaluation mode after training copies rank 0's buffers to all ranks.
  Tensor operator()(const Tensor& input);
  // The same for a model that takes or returns something else: ddp.forward([&] { return model.segment(images); }).
  template <class F>
  auto forward(const F& call) {
    begin_forward();
    return call();
  }

  // Training mode: after eval(), each module in the mode that it was in before, so that a frozen part stays so. The
  // buffers count as changed from here, because a recorded step (optim/graphed_step.h) changes them without a call of
  // operator().
  void train();
  // Evaluation mode, with rank 0's buffers on every rank. Collective.
  void eval();
  // Copies rank 0's buffers to all ranks. Collective. Needed only by those who call the model directly.
  void sync_buffers();
  // Error on all ranks when they do not hold the same weights. Collective.
  void check_same_weights();

  // Accumulates gradients over several backward passes. A pass that runs while the returned object lives adds its
  // gradients up on this rank alone. The first pass after that averages the sums over the ranks.
  //
  //   for (int i = 0; i < parts; ++i) {
  //     const auto local = ddp.no_sync(i + 1 < parts);
  //     (loss(ddp(images[i]), labels[i]) / parts).backward();
  //   }
  [[nodiscard]] NoSync no_sync(bool on = true) { return NoSync(*reducer_, on); }

  // Sets how buckets are averaged from now on. All ranks must set the same hook. Default: all_reduce_hook().
  void set_communication_hook(CommunicationHook hook) { reducer_->set_communication_hook(std::move(hook)); }
  const CommunicationHook& communication_hook() const { return reducer_->communication_hook(); }

  // The state that the next step depends on, except for the model and the hook. It is the same on all ranks: the order
  // of the gradients in the buckets. Empty before the first backward pass, and with a group of one rank.
  std::vector<NamedArray> state_dict() const;
  // For a group of as many ranks. All ranks must give the same. After an empty state the next backward pass counts as
  // the first. Error when an entry is unknown or fits other parameters. Then nothing is changed.
  void load_state_dict(const std::vector<NamedArray>& state);

  nn::Module& model() const { return model_; }
  const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  Reducer& reducer() { return *reducer_; }

  // For join() (ddp/join.h): from now on the ranks agree on forward passes and on buffers through `rounds`, if it is
  // not null. The reducer has its own.
  void set_rounds(StepRounds* rounds) { rounds_ = rounds; }
  // Copy the values of rank `root` to all ranks. Collective.
  void share_parameters(int root);
  void share_buffers(int root);

  // All ranks have the same samples, as with a data set of one sample: no warning says so.
  void expect_same_samples() { reducer_->expect_same_samples(); }
  // From now on tells `observer` what becomes of each bucket, such as a CommunicationMeter (communication_meter.h).
  void observe(std::shared_ptr<ReducerObserver> observer) { reducer_->observe(std::move(observer)); }

 private:
  void begin_forward();
  void check_parameters();
  void after_pass();

  nn::Module& model_;
  std::shared_ptr<ProcessGroup> group_;
  bool buffers_read_in_training_;
  bool buffers_changed_ = false;
  std::uint64_t additions_;            // nn::additions() when the parameters were compared with the reducer's last
  std::int64_t passes_ = 0;            // backward passes that averaged
  bool are_weights_compared_ = false;  // the ranks compute alike
  StepRounds* rounds_ = nullptr;
  std::optional<nn::EvaluationMode> evaluation_;  // from eval() to train()
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tandem::distributed
