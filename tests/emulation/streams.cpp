// Implements the host's calls for streams.
#include "device_memory.h"
#include "stream_state.h"

#include <pthread.h>

#include <algorithm>

namespace emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
thread_local bool thread_has_context = false;

// Returns a function that begins a piece of work once, and then returns whether it is done.
std::function<bool()> begin_and_wait(Start start) {
  struct State {
    Start start;
    bool begun = false;
    std::shared_ptr<Completion> open;
  };
  return [state = std::make_shared<State>(State{std::move(start), false, nullptr})] {
    if (!std::exchange(state->begun, true)) {
      const OnGpu gpu;
      state->open = state->start();
    }
    return is_done(state->open);
  };
}

}  // namespace

cudaStream_t stream_or_default(cudaStream_t stream) {
  if (!stream) die("work in the default stream, which waits for all others: pass a stream");
  return stream;
}

void submit(cudaStream_t stream, Start work, std::shared_ptr<void> held) {
  const std::lock_guard lock(mutex);
  if (!stream_or_default(stream)->capture) return push(stream, begin_and_wait(std::move(work)));
  add_node(*stream, std::move(work));
  if (held) stream->capture->held.push_back(std::move(held));
}
void submit_work(cudaStream_t stream, std::function<void()> work) {
  submit(stream, [work = std::move(work)]() -> std::shared_ptr<Completion> {
    work();
    return nullptr;
  });
}
bool is_captured(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  return stream_or_default(stream)->capture != nullptr;
}

cudaError_t failed(cudaError_t error) { return last_error = error; }
cudaError_t check_not_forked() {
  static bool is_forked = false;
  static const int watches = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
  static_cast<void>(watches);
  return is_forked ? failed(cudaErrorInitializationError) : cudaSuccess;
}
int current_device() { return device_of_thread; }
bool has_context() { return thread_has_context; }

}  // namespace emulation

using namespace emulation;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaGetDevice(int* device) {
  TANDEM_NOT_FORKED;
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  TANDEM_NOT_FORKED;
  if (device < 0 || device >= driver().devices) return failed(cudaErrorInvalidDevice);
  if (driver().is_lost) return failed(cudaErrorIllegalAddress);
  device_of_thread = device;
  thread_has_context = true;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  *stream = new EmulatedStream;
  (*stream)->device = device_of_thread;
  streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  TANDEM_NOT_FORKED;
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  TANDEM_NOT_FORKED;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  if (stream->capture) die("a stream is destroyed while it is captured");
  stream->is_destroyed = true;
  if (!stream->queue.empty()) return cudaSuccess;  // deleted when its work is done
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  {
    const std::lock_guard lock(mutex);
    if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  wait_for_stream(stream);
  return log_call("synchronize");
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  TANDEM_NOT_FORKED;
  submit_work(stream, [function, data] { function(data); });
  return log_call("host function");
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return stream->queue.empty() ? cudaSuccess : failed(cudaErrorNotReady);
}
