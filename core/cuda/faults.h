// What went wrong on a GPU after the call that started it had returned. It leaves a note, and the next synchronisation
// turns that into an Error.
#pragma once

#include <tandem/core/index_fault.h>

#include <exception>

namespace tandem::cuda {

// Of the current GPU, in host memory that it can write: cuda::note (index_check.cuh) in a kernel does.
IndexFault* fault_of(int device);

// From the host: what is on the GPU is undefined, because of `cause`. Any thread.
void leave_fault(int device, std::exception_ptr cause);

// Error when there is a note, which is then forgotten. The GPU must have done its work.
void check_faults(int device);

}  // namespace tandem::cuda
