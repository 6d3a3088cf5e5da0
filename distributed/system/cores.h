// The processor cores that a job's processes share.
#pragma once

#include <sched.h>

namespace tandem::distributed {

// Returns how many cores this process may use: the smaller of its affinity mask and its control group's limit, rounded
// up, but at least 1.
int available_cores();

// Returns the cores for process `local_rank` of `processes` processes: a share of the cores in this process's affinity
// mask. The cores of a share have consecutive positions in the mask. A share has at least one core. If there are more
// processes than cores, several processes get the same core. Throws an Error if the affinity mask can't be read.
cpu_set_t core_share(int local_rank, int processes);

}  // namespace tandem::distributed
