// The processor cores that a job's processes share.
#pragma once

#include <sched.h>

namespace tandem::distributed {

// The cores this process may use: by affinity, and by a container's limit (rounded up).
int available_cores();

// The share of one of `processes` in the cores this process may use: neighbouring ones, at least one.
cpu_set_t core_share(int local_rank, int processes);

}  // namespace tandem::distributed
