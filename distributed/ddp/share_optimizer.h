// share_optimizer(): copies an optimizer's state from one rank to the others.
#pragma once

#include <tandem/core/device/device.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/optim/optimizer.h>

namespace tandem::distributed {

// Copies the state of `optimizer` on rank `root` to all ranks. `device` is the parameters'. A rank that has made no
// step has no state yet. Collective.
void share_optimizer(optim::Optimizer& optimizer, Device device, ProcessGroup& group, int root);

}  // namespace tandem::distributed
