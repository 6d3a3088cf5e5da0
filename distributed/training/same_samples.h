// Checks that the processes of a group have the same samples.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Checks that `names`, the samples of a data set in their order, are the same on all processes. Where hosts have copies
// of the files of which some are damaged or missing, processes would otherwise divide different lists among themselves:
// some samples would be read twice and others never. `what` names the data set. `explain` is asked on the process that
// differs from rank 0 for what it knows about a name, such as the reason why it left it out. Collective; a difference
// on one process is an Error on all, which names the first sample that differs.
void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain = {});

}  // namespace tandem::distributed
