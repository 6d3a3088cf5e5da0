// The processor cores that a job's processes share.
#pragma once

#include <sched.h>

namespace tandem::distributed {

// How many cores this process may use: the smaller of its affinity mask and its control group's limit, rounded up. At
// least 1.
int available_cores();

// The cores for process `local_rank` of `processes` processes: a share of the cores in this process's affinity mask.
// The cores of a share have neighbouring numbers. A share has at least one core; if there are more processes than
// cores, several processes get the same core. Error when the affinity mask cannot be read.
cpu_set_t core_share(int local_rank, int processes);

}  // namespace tandem::distributed
