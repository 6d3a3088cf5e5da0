// What an emulated GPU is asked to do, and when it does it: streams, events and graphs. One thread is all GPUs. It
// does the work of a stream in order, and of several streams in any order that their events allow. It mostly takes the
// work that was asked for last first, so that a forgotten event shows, and else any (random_order.h). It begins late,
// when a caller waits for it.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace emulation {

// Work that takes until others have done something, such as the other ranks of a collective.
struct Completion {
  // Guarded by a lock of the emulation:
  int open = 1;  // how many parts are not done yet
  std::chrono::steady_clock::time_point end;
};
// Says that one part is done. When no part is left, those that wait for the completion wake up.
void complete(Completion& completion);
bool is_done(const std::shared_ptr<Completion>& completion);

// Begins a piece of work. The Completion that it returns is open until the work is done. Null means that the work is
// already done.
using Start = std::function<std::shared_ptr<Completion>()>;
// Puts work into a stream. Where the stream is captured, the work becomes a node of the graph, and `held` lives as long
// as the graph and what was made of it. The thread that is the GPU runs it as `OnGpu`.
void submit(cudaStream_t stream, Start work, std::shared_ptr<void> held = nullptr);
// The same for work that is done at once.
void submit_work(cudaStream_t stream, std::function<void()> work);
bool is_captured(cudaStream_t stream);

void wait_for_stream(cudaStream_t stream);
// Waits until the GPU has nothing left to do, as freeing memory does.
void wait_for_gpu(int device);

// Stops the GPU. main() calls it before it returns, because exit() destroys objects that the GPU may still use.
void rest();

// The code that a failed call returns; cudaGetLastError then returns it too.
cudaError_t failed(cudaError_t error);
// Notes a call of the driver in the log. Fails where a test wants that.
cudaError_t log_call(const std::string& call);
// cudaErrorInitializationError in a process that was forked after the first call of the runtime, else cudaSuccess.
cudaError_t check_not_forked();
#define TANDEM_NOT_FORKED \
  if (const auto error = ::emulation::check_not_forked(); error != cudaSuccess) return error
int current_device();
// The stream whose work the thread that is the GPU does now.
cudaStream_t running_stream();
int device_of(cudaStream_t stream);
// Whether this thread has chosen a GPU.
bool has_context();
// Calls that a capture forbids, to the thread that captures or to all: cudaSuccess where it may go on.
cudaError_t check_captures();

}  // namespace emulation
