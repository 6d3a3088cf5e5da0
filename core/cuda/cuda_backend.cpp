#include <tandem/core/backend/device_graph.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/cuda/graph.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/cuda/undefined_contents.h>
#include <tandem/core/cuda/upload.h>
#include <tandem/core/profile/profile_lanes.h>

#include <unistd.h>

#include <array>
#include <memory>
#include <mutex>

namespace tandem {

namespace {

// The host cannot wait inside of a recorded graph. This check says so before the driver finds out, which would spoil
// more than this call.
void check_may_wait(const char* what) {
  TANDEM_CHECK(!is_recording_graph(), "a recorded step can't ", what,
               ": keep it on the GPU, or do it before or after the step");
}

}  // namespace

CudaBackend::CudaBackend(int index) : index_(index) {}

void CudaBackend::upload(const void* host, void* data, std::size_t bytes) {
  check_may_wait("bring numbers from the host (Array::to, copy_from)");
  cuda::upload(index_, host, data, bytes);
}

void CudaBackend::download(const void* data, void* host, std::size_t bytes) {
  check_may_wait("read a value (item, to_vector, Array::to)");
  TANDEM_CUDA(cudaMemcpyAsync(host, data, bytes, cudaMemcpyDeviceToHost, cuda::current_stream()));
  synchronize();
}

void CudaBackend::synchronize() {
  check_may_wait("wait for the GPU (synchronize)");
  TANDEM_CUDA(cudaStreamSynchronize(cuda::current_stream()));
  cuda::check_faults(index_);
  cuda::check_defined(index_);
}

namespace {

// Returns whether this process was forked from a process that had called this function. CUDA then gives it no GPU.
bool is_forked() {
  static const pid_t first = getpid();
  return getpid() != first;
}

int device_count() {
  const bool forked = is_forked();
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  if (forked && status == cudaErrorInitializationError) cuda::check(status, "cudaGetDeviceCount");
  cudaGetLastError();
  return 0;
}

DeviceMemory& of_device(int index) {
  static auto* backends = new std::array<std::unique_ptr<CudaBackend>, 64>;
  static std::mutex mutex;  // guards backends
  static const int count = [] {
    is_forked();
    int found = 0;
    TANDEM_CUDA(cudaGetDeviceCount(&found));
    detail::show_scopes_to_nvtx();
    return found;
  }();
  TANDEM_CHECK(index >= 0 && index < count, "cuda:", index, " is not here: this process sees ", count,
               count == 1 ? " GPU" : " GPUs");
  {
    const std::lock_guard lock(mutex);
    auto& backend = backends->at(static_cast<std::size_t>(index));
    if (!backend) backend = std::make_unique<CudaBackend>(index);
  }
  cuda::use_device(index);
  return *(*backends)[static_cast<std::size_t>(index)];
}

}  // namespace

void add_cuda_backend() {
  device_kinds.add({Device::Kind::cuda, of_device, device_count});
  set_graph_recorder(cuda::record_graph);
  cuda::add_recurrent_kernel();
}

}  // namespace tandem
