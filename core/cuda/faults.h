// What went wrong on a GPU after the call that started it had returned. It leaves a note, and the next synchronisation
// turns that into an Error.
#pragma once

#include <cstdint>
#include <exception>

namespace tandem::cuda {

// What a kernel found wrong with its input. In host memory that the GPU can write. row < 0: nothing is wrong.
struct Fault {
  std::int64_t row;
  std::int64_t target;
  std::int64_t classes;
};

// Of the current GPU; as kernels see it. A cross-entropy whose target is not a class writes it.
Fault* fault_of(int device);

// From the host: what is on the GPU is undefined, because of `cause`. Any thread.
void leave_fault(int device, std::exception_ptr cause);

// Error when there is a note, which is then forgotten. The GPU must have done its work.
void check_faults(int device);

}  // namespace tandem::cuda
