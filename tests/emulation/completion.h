// Work that is still under way on the emulated GPU. Kernels and copies are done when the call that starts them returns.
// Only work that waits for other GPUs, such as NCCL's operations, is done later.
#pragma once

#include <functional>
#include <memory>

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;

namespace emulation {

struct Completion {
  int open = 1;  // how many parts are not done yet; guarded by a lock of the emulation
};

// Says that one part is done. When no part is left, those that wait for the completion wake up.
void complete(Completion& completion);
// The last work in `stream` that may still be under way. Null when there is none.
void set_last(cudaStream_t stream, std::shared_ptr<Completion> completion);
std::shared_ptr<Completion> last_of(cudaStream_t stream);
bool is_done(const std::shared_ptr<Completion>& completion);
void wait_for(const std::shared_ptr<Completion>& completion);

// Whether this thread records a graph. If so, `work` becomes the next part of the graph.
bool record(const std::function<void()>& work);

}  // namespace emulation
