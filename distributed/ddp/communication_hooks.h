// Communication hooks: how the gradients of one bucket become their mean over the ranks.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::distributed {

// The gradients that travel together. The arrays are views: what is written to them is what the optimizer sees.
struct GradBucket {
  std::size_t index;  // buckets are reduced in this order, on all ranks
  bool is_last;
  Array buffer;                         // (elements), all gradients of the bucket, zeros between
  std::vector<Array> gradients;         // each a part of buffer
  std::vector<NamedTensor> parameters;  // by the same index: whose gradients these are
};

// A communication hook that keeps something from one step to the next, and lets a checkpoint have it.
class StatefulHook {
 public:
  virtual ~StatefulHook() = default;
  virtual std::shared_ptr<Work> operator()(const GradBucket& bucket, ProcessGroup& group) = 0;
  // The state that the next step of this rank depends on. Other ranks may have other names and shapes. Valid until the
  // next step, which may write to these arrays.
  virtual std::vector<NamedArray> state_dict() const = 0;
  // For the same rank of a group of the same size. Error when the state is not of such a hook. Then nothing is changed.
  virtual void load_state_dict(const std::vector<NamedArray>& state) = 0;
};

// A hook starts the communication of a bucket whose gradients are all final, and returns while the communication goes
// on. When the returned Work's wait() returns, the buffer must hold the mean over the ranks, with the same bits on all
// ranks. A null Work means that there is nothing to wait for. The hook runs on the thread of the backward pass, which
// goes on once the hook has returned; computations on the received numbers belong into finish_with (compress_hook.h).
// All ranks call the hook for the same buckets in the same order, so it may use any collective. An exception from the
// hook leaves backward(), with the rank and the bucket in its text.
//
// A hook is a function, or a StatefulHook where a checkpoint must hold what the hook keeps from one step to the next.
class CommunicationHook {
 public:
  CommunicationHook(std::nullptr_t = nullptr) {}  // none
  template <class F>
  requires std::is_invocable_r_v<std::shared_ptr<Work>, F&, const GradBucket&, ProcessGroup&> CommunicationHook(
      F function)
      : function_(std::move(function)) {}
  CommunicationHook(std::shared_ptr<StatefulHook> hook)
      : function_([hook](const GradBucket& bucket, ProcessGroup& group) { return (*hook)(bucket, group); }),
        stateful_(hook) {}

  explicit operator bool() const { return static_cast<bool>(function_); }
  std::shared_ptr<Work> operator()(const GradBucket& bucket, ProcessGroup& group) const {
    return function_(bucket, group);
  }
  // Null for a hook that keeps nothing.
  StatefulHook* stateful() const { return stateful_.get(); }

 private:
  std::function<std::shared_ptr<Work>(const GradBucket& bucket, ProcessGroup& group)> function_;
  std::shared_ptr<StatefulHook> stateful_;
};

// The hook that is used when none is set: one all-reduce of the bucket.
CommunicationHook all_reduce_hook();

}  // namespace tandem::distributed
