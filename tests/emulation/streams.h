// The work of an emulated GPU, and when it runs: streams, events and graphs. One thread, the GPU thread, acts as all
// GPUs. It does the work of a stream in order, and that of several streams in any order that their events allow. It
// mostly takes the work that was submitted last, so that a forgotten event has a visible effect. Sometimes it takes any
// work (random_order.h). It begins late, when a caller waits for the work.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace emulation {

// Work that lasts until others have done something, such as the other ranks of a collective.
struct Completion {
  // Guarded by a lock of the emulation:
  int open = 1;  // the number of unfinished parts
  std::chrono::steady_clock::time_point end;
};
// Finishes one part. When no part is left, the threads that wait for the completion wake up.
void complete(Completion& completion);
bool is_done(const std::shared_ptr<Completion>& completion);

// Begins a piece of work. The Completion that it returns is open until the work is done. Null means that the work is
// already done.
using Start = std::function<std::shared_ptr<Completion>()>;
// Puts work into a stream. If the stream is captured, the work becomes a node of the graph, and `held` lives as long as
// the graph and everything made from it. The GPU thread runs the work as `OnGpu`.
void submit(cudaStream_t stream, Start work, std::shared_ptr<void> held = nullptr);
// The same for work that is done when it returns.
void submit_work(cudaStream_t stream, std::function<void()> work);
bool is_captured(cudaStream_t stream);

void wait_for_stream(cudaStream_t stream);
// Waits until the GPU has no work left, as freeing memory does.
void wait_for_gpu(int device);

// Stops the GPU. main() calls it before it returns, because exit() destroys objects that the GPU may still use.
void rest();

// Returns the code of a failed call. cudaGetLastError then returns it too.
cudaError_t failed(cudaError_t error);
// Adds a call of the driver to the log. Returns an error if a test wants the call to fail.
cudaError_t log_call(const std::string& call);
// Returns cudaErrorInitializationError in a process that was forked after the first call of the runtime, and
// cudaSuccess otherwise.
cudaError_t check_not_forked();
#define TANDEM_NOT_FORKED \
  if (const auto error = ::emulation::check_not_forked(); error != cudaSuccess) return error
int current_device();
// The stream whose work the GPU thread is running.
cudaStream_t running_stream();
int device_of(cudaStream_t stream);
// Returns whether this thread has chosen a GPU.
bool has_context();
// For calls that a capture forbids, on the capturing thread or on all. Returns cudaSuccess if the call is allowed.
cudaError_t check_captures();

}  // namespace emulation
