// CudaEvent: a point in a stream of a GPU.
#pragma once

#include <tandem/core/cuda/runtime.h>

namespace tandem::cuda {

class CudaEvent {
 public:
  // Events that only order work are cheaper than those that also tell the time.
  explicit CudaEvent(bool with_time = false) {
    TANDEM_CUDA(cudaEventCreateWithFlags(&event_, with_time ? 0 : cudaEventDisableTiming));
  }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

  // Returns cudaSuccess once the event has passed, cudaErrorNotReady before that, or an error.
  cudaError_t state() const {
    const auto result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) cudaGetLastError();  // not an error, and not for the next check to find
    return result;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tandem::cuda
