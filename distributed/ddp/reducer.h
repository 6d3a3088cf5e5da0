// Reducer: averages gradients over the ranks of a group while the backward pass is still running.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/distributed/ddp/bucket_layout.h>
#include <tandem/distributed/ddp/communication_hooks.h>
#include <tandem/distributed/ddp/reducer_observer.h>
#include <tandem/distributed/ddp/step_rounds.h>
#include <tandem/distributed/ddp/unused_parameters.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// The reducer owns the memory of the gradients. Each gradient is a view of its bucket, so communication needs no copy.
// When the last gradient of a bucket is final, the reducer starts the all_reduce of the bucket, and backward continues
// while the group's own thread runs the all_reduce. Gradients may become ready in a different order on each rank, but
// all ranks start the buckets in the same fixed order. At the end of backward, the reducer waits until all means have
// arrived.
//
// In the first pass, buckets hold the parameters in reverse order of registration. At the end of that pass, the reducer
// rebuilds the buckets in the order in which rank 0's gradients became ready. The gradients keep their values, but
// their addresses change. A job that resumes from a checkpoint restores that order, because the bits of a mean over
// three or more ranks may depend on the position in a bucket.
//
// After an exception in the middle of a backward pass, this rank is out of step with the others, and the group can't be
// used any more. The error about unused parameters is an exception to that, because all ranks throw it at the end of
// the pass. Only the thread that runs backward may use the reducer. (Li et al., "PyTorch Distributed", VLDB 2020,
// section 3.2.)
class Reducer {
 public:
  Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<ProcessGroup> group, BucketSizes sizes,
          Unused unused = Unused::error);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  void set_communication_hook(CommunicationHook hook) { communication_hook_ = std::move(hook); }
  const CommunicationHook& communication_hook() const { return communication_hook_; }
  // While the returned object lives, passes only accumulate this rank's gradients. The next pass averages the sums.
  [[nodiscard]] Temporarily<bool> no_sync(bool on = true) { return {synchronising_, synchronising_ && !on}; }
  bool is_synchronising() const { return synchronising_; }

  // Calls `call` at the end of each pass that averages, after the same pass on all ranks, but not while rounds are set.
  void set_after_pass(std::function<void()> call) { after_pass_ = std::move(call); }
  // From now on, the ranks agree on each pass through `rounds`, unless it is null.
  void set_rounds(StepRounds* rounds) { rounds_ = rounds; }
  bool has_rounds() const { return rounds_ != nullptr; }
  // A rank without data calls this while the others run a backward pass. It discards this rank's gradients.
  void shadow_backward();

  // Returns the parameters in the order in which the buckets were rebuilt. Empty before that, and in a group of one
  // rank.
  const std::vector<std::int64_t>& gradient_order() const { return gradient_order_; }
  // Builds the buckets in the given order now, instead of at the end of the first pass. All ranks must pass the same
  // order. An empty order resets the buckets, and the next pass counts as the first. Any other order must contain each
  // parameter that requires a gradient exactly once; otherwise throws an Error and changes nothing.
  void set_gradient_order(std::vector<std::int64_t> order);

  // From now on, reports each step to `observer`, which must not be null. Throws an Error if called during a backward
  // pass.
  void observe(std::shared_ptr<ReducerObserver> observer);
  void expect_same_samples() { warns_if_same_ = false; }  // see DistributedDataParallel
  void begin_forward() { observer_->forward_begun(); }    // only tells the observer

 private:
  struct Bucket {
    GradBucket content;
    Array message;            // content.buffer; in the last bucket, flag_ follows it
    std::size_t missing = 0;  // the number of gradients that are not final yet in this pass
    std::shared_ptr<Work> work;
  };

  void make_buckets(BucketLayout layout);
  Bucket make_bucket(const std::vector<std::size_t>& parameters, bool is_last);
  void begin_pass();
  void begin_backward();
  void gradient_ready(std::size_t parameter);
  void contribute_nothing(std::size_t parameter);
  void start_full_buckets();
  void end_backward();
  void finish_pass();
  void wait_for_buckets();
  void warn_if_same();
  void rebuild_buckets();
  void take_order(std::vector<std::int64_t> order);
  template <class F>
  void call_communication_hook(const Bucket& bucket, F call) const;

  std::vector<NamedTensor> parameters_;
  const std::shared_ptr<ProcessGroup> group_;
  const BucketSizes sizes_;
  const Unused unused_;
  const int number_;                  // of the group's Reducers
  std::vector<std::size_t> reduced_;  // the parameters that required a gradient at construction
  std::vector<std::size_t> frozen_;   // the others
  std::vector<HookHandle> hook_handles_;

  BucketLayout layout_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  // One element after the last bucket's gradients, for the error about unused parameters. A rank that has unused
  // parameters writes 1, the others write 0. The flag is sent with the gradients, so it needs no message of its own,
  // and every rank gets the result. If the gradients are on a GPU, or a communication hook is set, the flag is a
  // separate message. On a GPU it is in host memory.
  Array flag_;
  bool rebuilt_ = false;
  bool warns_if_same_ = true;
  Array own_gradients_;  // this rank's gradients of the last bucket in the first pass; undefined afterwards
  std::vector<std::int64_t> gradient_order_;

  CommunicationHook communication_hook_;
  bool synchronising_ = true;
  std::function<void()> after_pass_;
  StepRounds* rounds_ = nullptr;
  std::shared_ptr<ReducerObserver> observer_ = std::make_shared<ReducerObserver>();

  std::vector<char> used_;  // by parameter: whether a pass has reached it since the last synchronised pass
  // The current pass:
  enum class State : char {
    owed,     // no gradient yet
    reached,  // its gradient is final
    absent    // this pass does not reach it
  };
  std::vector<State> state_;        // by parameter
  std::vector<std::size_t> order_;  // parameters in the order in which they were reached
  std::size_t started_ = 0;         // the number of buckets that have been started
  // With Unused::skip: the absent parameters, each with its gradient before the pass, which may be undefined.
  std::vector<std::pair<std::size_t, Array>> untouched_;
  std::weak_ptr<void> backward_;  // expires when the current backward pass has ended
};

}  // namespace tandem::distributed
