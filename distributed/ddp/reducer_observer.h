// ReducerObserver: the interface by which a Reducer reports each step to one object, such as a CommunicationMeter
// (communication_meter.h).
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstddef>
#include <memory>

namespace tandem::distributed {

// The Reducer calls these functions on the thread that trains, in this order: forward_begun and backward_begun; then
// reduction_begun and reduction_started for each bucket, mixed with gradient_ready for each gradient, which follows the
// reductions that the gradient has started; gradients_complete; reduction_waited for each bucket; backward_ended.
// buckets_made comes between two passes. A function does nothing where a subclass does not override it. It must not
// throw.
class ReducerObserver {
 public:
  virtual ~ReducerObserver() = default;

  virtual void buckets_made() {}   // called again when buckets are rebuilt: their sizes have changed
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
