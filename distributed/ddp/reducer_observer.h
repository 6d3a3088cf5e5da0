// ReducerObserver: the interface through which a Reducer reports each step to one object, such as a CommunicationMeter
// (communication_meter.h).
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstddef>
#include <memory>

namespace tandem::distributed {

// The Reducer calls these functions on the training thread. Each pass starts with forward_begun and backward_begun.
// Then reduction_begun and reduction_started follow for each bucket, interleaved with gradient_ready for each gradient,
// which comes after the reductions that the gradient has started. The pass ends with gradients_complete,
// reduction_waited for each bucket, and backward_ended. buckets_made comes between two passes. By default, each
// function does nothing. An override must not throw.
class ReducerObserver {
 public:
  virtual ~ReducerObserver() = default;

  virtual void buckets_made() {}   // called again after buckets are rebuilt, because their sizes have changed
  virtual void forward_begun() {}  // only if DistributedDataParallel calls the model
  virtual void backward_begun() {}
  virtual void reduction_begun(const GradBucket&) {}
  // The call that starts a reduction has returned `work`, which is null if that call has already waited for the end.
  virtual void reduction_started(std::size_t, const std::shared_ptr<Work>& /*work*/) {}
  virtual void gradient_ready() {}
  virtual void gradients_complete() {}
  virtual void reduction_waited(std::size_t) {}  // the wait for this bucket is over
  virtual void backward_ended() {}
};

}  // namespace tandem::distributed
