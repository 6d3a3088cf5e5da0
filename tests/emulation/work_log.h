// Records the work of captured streams, for tests of which kernels run.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace emulation {

// From now on, until it is called with nullptr, adds each piece of work of a captured stream to `log`: "kernel of
// FUNCTION", "copy", "set", "cuBLAS" or "cuDNN". FUNCTION is the function that launches the kernel, without namespaces
// and parameters.
void note_work_in(std::vector<std::string>* log);
void note_work(cudaStream_t stream, const std::string& what);
// Records a kernel that is launched by a function up the call stack.
void note_kernel(cudaStream_t stream);

}  // namespace emulation
