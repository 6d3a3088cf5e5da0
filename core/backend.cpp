#include <tandem/core/backend.h>
#include <tandem/core/cpu/cpu_backend.h>

namespace tandem {

Backend& backend(Device device) {
  TANDEM_CHECK(device.is_cpu(), device, ": this build has no CUDA back-end; use the cpu device");
  return cpu_backend();
}

MemoryStats memory_stats(Device device) { return backend(device).memory_stats(); }

}  // namespace tandem
