// ReducerObserver: who wants to know what a Reducer does in a step. The seam for CommunicationMeter
// (communication_meter.h).
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstddef>
#include <memory>

namespace tandem::distributed {

// The Reducer calls these functions on the thread of the backward pass, in the order of this list; the middle ones once
// for each gradient or bucket. They do nothing where a subclass does not override them, and must not throw.
class ReducerObserver {
 public:
  virtual ~ReducerObserver() = default;

  virtual void buckets_made() {}   // anew: the sizes of buckets have changed
  virtual void forward_begun() {}  // of a model that DistributedDataParallel calls
  virtual void backward_begun() {}
  virtual void reduction_begun(const GradBucket&) {}
  // The call that starts a reduction has returned `work`; null when that call has already waited for the end.
  virtual void reduction_started(std::size_t, const std::shared_ptr<Work>& /*work*/) {}
  virtual void gradient_ready() {}
  virtual void gradients_complete() {}
  virtual void reduction_waited(std::size_t) {}  // the wait for that bucket is over
  virtual void backward_ended() {}
};

}  // namespace tandem::distributed
