// LocalGroup: the group of one rank, so that no program needs a branch for "not distributed".
#pragma once

#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {

// Every operation is done when it has been started, and moves nothing to another process.
std::shared_ptr<ProcessGroup> local_group();

}  // namespace tandem::distributed
