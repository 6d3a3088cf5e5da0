// Implements events: points in streams for which other streams wait.
#include "device_memory.h"
#include "stream_state.h"

#include <algorithm>

using namespace emulation;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TANDEM_NOT_FORKED;
  *event = new EmulatedEvent;
  (*event)->has_timing = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TANDEM_NOT_FORKED;
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  {
    const std::lock_guard lock(mutex);
    event->is_captured = stream_or_default(stream)->capture != nullptr;
    if (event->has_timing && !event->is_captured && stream->queue.empty())
      die("a timing event in an idle stream: what comes after it is timed together with the host's queueing");
    event->capture = stream->capture;
    event->latest = stream->latest;
    if (!event->is_captured) {
      event->after = std::make_shared<Completion>();
      push(stream, [after = event->after] {
        complete(*after);
        return true;
      });
    }
  }
  return log_call("record event");
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  TANDEM_NOT_FORKED;
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  if (event->is_captured) return failed(cudaErrorCapturedEvent);
  return is_open(event->after) ? failed(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  TANDEM_NOT_FORKED;
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  {
    std::unique_lock lock(mutex);
    if (event->is_captured) return failed(cudaErrorCapturedEvent);
    wait_until(lock, [after = event->after] { return !is_open(after); });
  }
  return log_call("synchronize event");
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  for (const auto event : {first, last}) {
    if (!event->has_timing || !event->after) return failed(cudaErrorInvalidValue);
    if (is_open(event->after)) return failed(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(last->after->end - first->after->end).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  TANDEM_NOT_FORKED;
  {
    const std::lock_guard lock(mutex);
    auto& capture = stream_or_default(stream)->capture;
    if (event->is_captured) {
      const auto from = event->capture.lock();
      if (!from || from->streams.empty()) return failed(cudaErrorCapturedEvent);
      if (capture && capture != from) return spoil(*capture, cudaErrorStreamCaptureIsolation);
      if (!capture) {
        stream->latest.clear();
        from->streams.push_back(stream);
        capture = from;
      }
      for (const auto node : event->latest)
        if (std::find(stream->latest.begin(), stream->latest.end(), node) == stream->latest.end())
          stream->latest.push_back(node);
    } else if (capture) {
      return spoil(*capture, cudaErrorStreamCaptureIsolation);
    } else if (is_open(event->after)) {
      push(stream, [after = event->after] { return is_done(after); });
    }
  }
  return log_call("stream waits");
}
