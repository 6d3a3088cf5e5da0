// The processor cores that a job's processes share.
#pragma once

#include <sched.h>

namespace tandem::distributed {

// The cores this process may use: by affinity, and by a container's limit (rounded up).
int available_cores();

// The cores for one of `processes` processes: its share of the cores that this process may use. The cores of a share
// are neighbours, and a share has at least one core.
cpu_set_t core_share(int local_rank, int processes);

}  // namespace tandem::distributed
