// LocalGroup: the group of one rank, so that no program needs a branch for "not distributed".
#pragma once

#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {

// Every operation is done at once and moves nothing.
std::shared_ptr<ProcessGroup> local_group();

}  // namespace tandem::distributed
