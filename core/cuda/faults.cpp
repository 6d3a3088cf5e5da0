#include <tandem/core/cuda/faults.h>
#include <tandem/core/cuda/runtime.h>

#include <array>
#include <mutex>
#include <utility>

namespace tandem::cuda {
namespace {

struct Causes {
  std::mutex mutex;
  std::array<std::exception_ptr, 64> of_device;
};
Causes& causes() {
  static auto* instance = new Causes;
  return *instance;
}

}  // namespace

IndexFault* fault_of(int device) {
  static std::array<IndexFault*, 64> faults{};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  IndexFault*& fault = faults.at(static_cast<std::size_t>(device));
  if (!fault) {
    // Unified addressing: the GPU uses the host's pointer.
    TANDEM_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&fault), sizeof(IndexFault), cudaHostAllocMapped));
    *fault = {};
  }
  return fault;
}

void leave_fault(int device, std::exception_ptr cause) {
  const std::lock_guard lock(causes().mutex);
  causes().of_device.at(static_cast<std::size_t>(device)) = std::move(cause);
}

void check_faults(int device) {
  {
    const std::lock_guard lock(causes().mutex);
    auto& cause = causes().of_device.at(static_cast<std::size_t>(device));
    if (cause) std::rethrow_exception(std::exchange(cause, nullptr));
  }
  IndexFault* fault = fault_of(device);
  if (const_cast<const volatile IndexFault*>(fault)->of == IndexFault::Of::none) return;
  const IndexFault found = *fault;
  *fault = {};
  fail(found);
}

}  // namespace tandem::cuda
