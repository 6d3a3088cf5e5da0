#include <tandem/core/cuda/faults.h>
#include <tandem/core/cuda/runtime.h>

#include <array>
#include <mutex>

namespace tandem::cuda {

Fault* fault_of(int device) {
  static std::array<Fault*, 64> faults{};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Fault*& fault = faults.at(static_cast<std::size_t>(device));
  if (!fault) {
    // Unified addressing: the GPU uses the host's pointer.
    TANDEM_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&fault), sizeof(Fault), cudaHostAllocMapped));
    *fault = {-1, 0, 0};
  }
  return fault;
}

void check_faults(int device) {
  Fault* fault = fault_of(device);
  const volatile Fault* seen = fault;
  if (seen->row < 0) return;
  const Fault found{seen->row, seen->target, seen->classes};
  *fault = {-1, 0, 0};
  detail::fail("cross_entropy: target ", found.target, " at row ", found.row, " is not a class: expected 0 to ",
               found.classes - 1);
}

}  // namespace tandem::cuda
