// What is still under way on the emulated GPU. Kernels and copies are done when the call that starts them returns; only
// what waits for other GPUs, NCCL's operations, is done later.
#pragma once

#include <functional>
#include <memory>

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;

namespace emulation {

struct Completion {
  int open = 1;  // parts not yet done; guarded by a lock of the emulation's
};

// `part` less; whoever waits for it is woken at 0.
void complete(Completion& completion);
// The last thing in `stream` that may be under way; null: nothing is.
void set_last(cudaStream_t stream, std::shared_ptr<Completion> completion);
std::shared_ptr<Completion> last_of(cudaStream_t stream);
bool is_done(const std::shared_ptr<Completion>& completion);
void wait_for(const std::shared_ptr<Completion>& completion);

// Whether this thread records a graph; then `work` becomes a part of it, in order.
bool record(const std::function<void()>& work);

}  // namespace emulation
