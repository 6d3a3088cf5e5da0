// LocalGroup: the group of a single rank. With it, a program needs no special case for "not distributed".
#pragma once

#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {

// Every operation is done as soon as it has been started. The group sends nothing to other processes.
std::shared_ptr<ProcessGroup> local_group();

}  // namespace tandem::distributed
