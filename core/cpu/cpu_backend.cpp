#include <tandem/core/cpu/cpu_backend.h>

namespace tandem {

// The back-end is never destroyed, because Arrays with static storage may free memory after main() has ended.
void add_cpu_backend() {
  device_kinds.add({Device::Kind::cpu,
                    [](int) -> DeviceMemory& {
                      static auto* instance = new CpuBackend;
                      return *instance;
                    },
                    [] { return 1; }});
}

}  // namespace tandem
