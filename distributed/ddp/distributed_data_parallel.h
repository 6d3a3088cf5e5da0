// DistributedDataParallel: trains the same model on every rank, with gradients averaged over the ranks.
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
  Unused unused = Unused::error;  // the treatment of parameters that a backward pass does not reach
  bool compares_weights = true;   // set to false for a communication hook that does not average in each step
};

// DistributedDataParallel observes a model without wrapping it, so the names in the model and its state dict don't
// change.
//
//   Net model;
//   DistributedDataParallel ddp(model, group);      // every rank now holds rank 0's parameters and buffers
//   loss(ddp(images), labels).backward();           // every rank now holds the mean gradients
//
// The model must outlive this object. With a group of one rank, nothing is sent or copied, but an unused parameter is
// still an Error. Only one thread may use it.
//
// Construction is collective. It compares the models of all ranks. If they differ, every rank throws an Error that
// shows the first difference and the ranks that differ. Then it copies rank 0's values to all ranks. Whenever a program
// reads buffers, such as a batch norm's running statistics, they are rank 0's on every rank (see sync_buffers()).
//
// Every backward pass that reaches a parameter is a step that all ranks take together. The number of forward passes
// before it, and how often they used a parameter, make no difference.
//
// If the ranks diverge later, they throw an Error. The next forward pass detects a parameter that was added after
// construction. Backward passes 0, 1, 2, 4, 8, ... 64 and every 100th compare the epoch of the Loader and the bits of
// the weights. There is no such comparison inside join(), or if the ranks' builds or processors differ, because
// clipping may then sum in a different order.
class DistributedDataParallel {
 public:
  [[nodiscard]] DistributedDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                                        const DistributedDataParallelOptions& options = {});
  ~DistributedDataParallel() {
    if (evaluation_) evaluation_->keep();
  }

  // Calls the model. The first call in evaluation mode after training copies rank 0's buffers to all ranks.
  Tensor operator()(const Tensor& input);
  // Does the same for a model with other arguments or results: ddp.forward([&] { return model.segment(images); }).
  template <class F>
  auto forward(const F& call) {
    begin_forward();
    return call();
  }

  // Switches to training mode. After eval(), it restores each module's previous mode, so a frozen part stays frozen.
  // From then on, the buffers count as changed, because a recorded step (optim/graphed_step.h) changes them without
  // calling operator().
  void train();
  // Switches to evaluation mode, and copies rank 0's buffers to every rank. Collective.
  void eval();
  // Copies rank 0's buffers to all ranks. Collective. Only programs that call the model directly need it.
  void sync_buffers();
  // Throws an Error on all ranks if their weights differ. Collective.
  void check_same_weights();

  // Accumulates gradients over several backward passes. While the returned object lives, a pass only accumulates this
  // rank's gradients. The next pass averages the sums over the ranks.
  //
  //   for (int i = 0; i < parts; ++i) {
  //     const auto local = ddp.no_sync(i + 1 < parts);
  //     (loss(ddp(images[i]), labels[i]) / parts).backward();
  //   }
  [[nodiscard]] Temporarily<bool> no_sync(bool on = true) { return reducer_->no_sync(on); }

  // Sets the hook that averages buckets from now on. All ranks must set the same hook. Without a hook, which is the
  // default and which nullptr restores, the reducer averages each bucket with one all-reduce.
  void set_communication_hook(CommunicationHook hook) { reducer_->set_communication_hook(std::move(hook)); }
  const CommunicationHook& communication_hook() const { return reducer_->communication_hook(); }

  // Returns the state on which the next step depends, except for the model and the hook. This is the order of the
  // gradients in the buckets, which is the same on all ranks. The result is empty before the first backward pass, and
  // with a group of one rank.
  std::vector<NamedArray> state_dict() const;
  // Loads the state from a group with the same number of ranks. All ranks must pass the same state. After an empty
  // state, the next backward pass counts as the first. Throws an Error, and changes nothing, if an entry is unknown or
  // belongs to other parameters.
  void load_state_dict(const std::vector<NamedArray>& state);

  nn::Module& model() const { return model_; }
  const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  Reducer& reducer() { return *reducer_; }

  // For join() (ddp/join.h). From now on, the ranks agree on forward passes and buffers through `rounds`, unless it is
  // null. The reducer has its own set_rounds().
  void set_rounds(StepRounds* rounds) { rounds_ = rounds; }
  // Copy the values of rank `root` to all ranks. Collective.
  void share_parameters(int root);
  void share_buffers(int root);

  // For the reducer, and for a strategy that averages gradients itself. Call it at the end of each backward pass that
  // averages. Every 100th call compares the weights. Collective.
  void after_pass();

  // Disables the warning for ranks that have the same samples, for example for a data set of one sample.
  void expect_same_samples() { reducer_->expect_same_samples(); }
  // From now on, reports the progress of each bucket to `observer`, such as a CommunicationMeter
  // (communication_meter.h).
  void observe(std::shared_ptr<ReducerObserver> observer) { reducer_->observe(std::move(observer)); }

 private:
  void begin_forward();
  void check_parameters();

  nn::Module& model_;
  std::shared_ptr<ProcessGroup> group_;
  bool buffers_read_in_training_;
  bool buffers_changed_ = false;
  std::uint64_t additions_;            // nn::additions() at the last comparison of the parameters with the reducer's
  std::int64_t passes_ = 0;            // the number of backward passes that averaged
  bool are_weights_compared_ = false;  // whether the ranks compute bitwise identical weights
  StepRounds* rounds_ = nullptr;
  std::optional<nn::EvaluationMode> evaluation_;  // from eval() to train()
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tandem::distributed
