// The limits, other than the affinity mask, that a container or a batch system sets for this process.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem::distributed {

// Each number may be absent. Any thread may call the functions.
struct ProcessLimits {
  std::function<std::optional<double>()> cpu;           // how many processors the process may keep busy, such as 1.5
  std::function<std::optional<std::int64_t>()> memory;  // bytes
  // The number of processes under this process's limit that the kernel has killed for lack of memory.
  std::function<std::optional<std::int64_t>()> memory_kills;
  std::function<std::string()> identity;  // equal for processes that share the limits
};
// All entries apply.
inline constinit AnnexList<ProcessLimits> process_limits{add_distributed_annexes};

}  // namespace tandem::distributed
