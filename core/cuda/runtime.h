// The CUDA runtime as the back-end uses it: every call checked, one stream per GPU, kernels launched in its order.
#pragma once

#include <tandem/core/base/check.h>

#include <cuda_runtime.h>

namespace tandem::cuda {

// Error unless `status` says success: the call, CUDA's name and words for what happened, and what to do where that is
// known. An error of a kernel shows at a later call, and the GPU is then lost to this process.
void check(cudaError_t status, const char* call);
#define TANDEM_CUDA(call) ::tandem::cuda::check(call, #call)

// The GPU that this thread's calls go to. Set by CudaBackend at the start of each operation, since several threads may
// use several GPUs.
void use_device(int index);

// The stream of this thread's GPU in which everything runs: in the order of the calls, not with the default stream.
// While a StreamGuard lives, another one.
cudaStream_t current_stream();

// This thread's current stream, for as long as it lives.
class StreamGuard {
 public:
  explicit StreamGuard(cudaStream_t stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  cudaStream_t before_;
};

}  // namespace tandem::cuda
