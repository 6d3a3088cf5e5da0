// What graphs record, for tests that look at which kernels run.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace emulation {

// From the call on, notes in `log` each piece of work that a captured stream is asked for: "kernel of FUNCTION",
// "copy", "set", "cuBLAS" or "cuDNN". FUNCTION is the function that launches the kernel, without namespaces and
// parameters. nullptr ends that.
void note_work_in(std::vector<std::string>* log);
void note_work(cudaStream_t stream, const std::string& what);
// Notes a kernel, which a function that called this one launches.
void note_kernel(cudaStream_t stream);

}  // namespace emulation
