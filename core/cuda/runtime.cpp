#include <tandem/core/cuda/runtime.h>

#include <array>
#include <mutex>
#include <string>

namespace tandem::cuda {

namespace {

constexpr int most_devices = 64;
thread_local cudaStream_t guarded_stream = nullptr;

const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return ": the NVIDIA driver is missing, or older than this build's CUDA; install or update it, or use "
             "--device cpu";
    case cudaErrorInitializationError:
      return ": the driver can't start in this process; one that was forked (spawn) from a process that has used or "
             "counted GPUs can't use any: call spawn before that, or start the program with tandemrun";
    case cudaErrorNoDevice: return ": this machine has no NVIDIA GPU, or it is hidden (CUDA_VISIBLE_DEVICES)";
    case cudaErrorNoKernelImageForDevice:
      return ": this build has no code for this GPU; configure with -DTANDEM_CUDA_ARCH=native";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return ": a kernel failed, and this process can't use the GPU any more; run it under compute-sanitizer "
             "to see which";
    default: return "";
  }
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the next launch shall not find this error, too
  int device = -1;
  cudaGetDevice(&device);
  const std::string where = device < 0 ? "" : " on cuda:" + std::to_string(device);
  detail::fail("CUDA, ", call, where, ": ", cudaGetErrorName(status), ", ", cudaGetErrorString(status), advice(status));
}

// In a thread that has chosen no GPU yet, cudaGetDevice answers 0, but no context is current: cuBLASLt and cuDNN may
// find none if they are the first libraries that the thread calls. From CUDA 12 on cudaSetDevice makes one current.
void use_device(int index) {
  thread_local bool has_context = false;
  int now = -1;
  if (has_context && cudaGetDevice(&now) == cudaSuccess && now == index) return;
  TANDEM_CUDA(cudaSetDevice(index));
  has_context = true;
}

cudaStream_t current_stream() {
  if (guarded_stream) return guarded_stream;
  static std::array<cudaStream_t, most_devices> streams{};
  static std::array<std::once_flag, most_devices> made;
  int device = 0;
  TANDEM_CUDA(cudaGetDevice(&device));
  std::call_once(made.at(static_cast<std::size_t>(device)), [&] {
    TANDEM_CUDA(cudaStreamCreateWithFlags(&streams[static_cast<std::size_t>(device)], cudaStreamNonBlocking));
  });
  return streams[static_cast<std::size_t>(device)];
}

StreamGuard::StreamGuard(cudaStream_t stream) : before_(guarded_stream) { guarded_stream = stream; }
StreamGuard::~StreamGuard() { guarded_stream = before_; }

}  // namespace tandem::cuda
