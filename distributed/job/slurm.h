// Slurm, as a LauncherKind (launcher_kind.h). These functions parse the formats that only Slurm's variables have
// (srun(1), "OUTPUT ENVIRONMENT VARIABLES").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed {

// Returns the hosts of a node list such as "a[01-03,07],b5,r[1-2]n[1-4]-ib", in the list's order. Leading zeros are
// kept. Throws an Error if the text is not a node list, or has more than 65,536 nodes.
std::vector<std::string> expand_nodelist(std::string_view list);

// Returns the number of tasks of each node, from a list such as "4(x2),3" (two nodes with 4 tasks each, and one node
// with 3). Throws an Error in the same cases.
std::vector<int> expand_tasks_per_node(std::string_view list);

}  // namespace tandem::distributed
