// What kernels found wrong with their input. They run long after the call that started them, so they leave a note, and
// the next synchronisation turns it into an Error.
#pragma once

#include <tandem/core/device/index_fault.h>

namespace tandem::cuda {

// Of the current GPU, in host memory that it can write: cuda::note (index_check.cuh) in a kernel does.
IndexFault* fault_of(int device);

// Error when there is a note, which is then forgotten. The GPU must have done its work.
void check_faults(int device);

}  // namespace tandem::cuda
