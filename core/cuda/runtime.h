// The CUDA runtime as the back-end uses it. Every call is checked, each GPU has one stream, and kernels run in the
// order of that stream.
#pragma once

#include <tandem/core/base/check.h>

#include <cuda_runtime.h>

namespace tandem::cuda {

// Throws an Error unless `status` is success. The text has the call, CUDA's name and description of what happened and,
// if known, what to do about it. An error of a kernel appears at a later call, and the GPU is then lost to this
// process.
void check(cudaError_t status, const char* call);
#define TANDEM_CUDA(call) ::tandem::cuda::check(call, #call)

// Chooses the GPU that this thread's calls go to. CudaBackend does so at the start of each operation, because several
// threads may use several GPUs.
void use_device(int index);

// The stream of this thread's GPU. All work runs in this stream, in the order of the calls. It does not wait for the
// default stream. While a StreamGuard lives, the guard's stream takes its place.
cudaStream_t current_stream();

// Makes a stream this thread's current stream for as long as the guard lives.
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
