// What Slurm's variables say, in the forms that only Slurm uses (srun(1), "OUTPUT ENVIRONMENT VARIABLES").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed {

// The hosts of a node list such as "a[01-03,07],b5,r[1-2]n[1-4]-ib", in its order. Leading zeros are kept. Error for
// what is no node list.
std::vector<std::string> expand_nodelist(std::string_view list);

// The tasks of each node, from a list such as "4(x2),3" (two nodes with 4 each, one with 3).
std::vector<int> expand_tasks_per_node(std::string_view list);

// A port for the store that all tasks of a job step compute alike and that other steps hardly share: above those that
// the kernel hands out by itself.
int port_for(std::uint64_t job, std::uint64_t step);

}  // namespace tandem::distributed
