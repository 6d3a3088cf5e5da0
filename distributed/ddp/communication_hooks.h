// Communication hooks: average the gradients of one bucket over the ranks.
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

// Gradients that are sent together. The arrays are views of the gradients that the optimizer reads.
struct GradBucket {
  std::string name;   // of the operation that reduces it: "gradient bucket 0"
  std::size_t index;  // buckets are reduced in this order, on all ranks
  bool is_last;
  Array buffer;                         // (elements), all gradients of the bucket, with zeros in the gaps
  std::vector<Array> gradients;         // each is a part of `buffer`
  std::vector<NamedTensor> parameters;  // parameters[i] has gradients[i]
};

// A communication hook with state that lasts from one step to the next, and that a checkpoint can save.
class StatefulHook {
 public:
  virtual ~StatefulHook() = default;
  virtual std::shared_ptr<Work> operator()(const GradBucket& bucket, ProcessGroup& group) = 0;
  // Returns the state on which the next step of this rank depends. Names and shapes may differ between ranks. The
  // arrays are valid until the next step, which may overwrite them.
  virtual std::vector<NamedArray> state_dict() const = 0;
  // Loads the state of the same rank in a group of the same size. Throws an Error, and changes nothing, if the state is
  // not from such a hook.
  virtual void load_state_dict(const std::vector<NamedArray>& state) = 0;
};

// A hook starts the communication of a bucket whose gradients are all final, and returns while the communication is
// running. When the returned Work's wait() returns, the buffer must hold the mean over the ranks, bitwise identical on
// all ranks. (A hook that averages only in some steps needs DistributedDataParallelOptions::compares_weights = false.)
// A null Work means that there is nothing to wait for. The hook runs on the thread of the backward pass, which
// continues when the hook has returned. Computations on received numbers belong in finish_with() (compress_hook.h). All
// ranks call the hook for the same buckets in the same order, so it may use any collective. backward() rethrows an
// exception of the hook, and adds the rank and the bucket to its text.
//
// A hook is a function, or a StatefulHook if a checkpoint must save its state.
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
  // Returns null for a hook without state.
  StatefulHook* stateful() const { return stateful_.get(); }

 private:
  std::function<std::shared_ptr<Work>(const GradBucket& bucket, ProcessGroup& group)> function_;
  std::shared_ptr<StatefulHook> stateful_;
};

// Returns a hook that averages the bucket with one all-reduce. A hook of a program may leave some buckets to it.
CommunicationHook all_reduce_hook();

}  // namespace tandem::distributed
