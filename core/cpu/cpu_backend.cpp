#include <tandem/core/cpu/cpu_backend.h>

namespace tandem {

// The back-end is never destroyed, because Arrays with static storage may give memory back after main() has ended.
Backend& cpu_backend() {
  static auto* instance = new CpuBackend;
  return *instance;
}

}  // namespace tandem
