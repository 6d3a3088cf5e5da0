// Reports errors that kernels find in their input. A kernel runs long after the call that started it, so it leaves a
// note, and the next synchronisation turns that note into an Error.
#pragma once

#include <tandem/core/backend/index_fault.h>

namespace tandem::cuda {

// The note of the current GPU. It is in host memory that the GPU can write to: kernels write it with cuda::note
// (index_check.cuh).
IndexFault* fault_of(int device);

// Throws an Error if there is a note, and clears the note. The GPU must have finished its work.
void check_faults(int device);

}  // namespace tandem::cuda
