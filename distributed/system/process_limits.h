// The limits, other than the affinity mask, that a container or a batch system sets for this process.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem::distributed {

// Each number may be absent. Any thread may call.
struct ProcessLimits {
  std::function<std::optional<double>()> cpu;           // how many processors may be kept busy; may be 1.5
  std::function<std::optional<std::int64_t>()> memory;  // bytes
  // How many processes the kernel has killed for lack of memory, of those that share this process's limit.
  std::function<std::optional<std::int64_t>()> memory_kills;
  std::function<std::string()> identity;  // equal for processes that share the limits
};
// All of them hold.
AnnexList<ProcessLimits>& process_limits();

}  // namespace tandem::distributed
