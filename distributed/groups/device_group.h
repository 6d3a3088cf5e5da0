// The list of functions that make process groups for arrays on GPUs. A build with CUDA adds NCCL's.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <memory>

namespace tandem::distributed {

// Returns a group whose operations on arrays of `device` go from GPU to GPU. All other operations go over `host`. All
// ranks of `host` must call it. `job_rank` is this process's rank in the whole job. `observers` observe the operations
// on the GPU.
using MakeDeviceGroup = std::function<std::shared_ptr<ProcessGroup>(std::shared_ptr<ProcessGroup> host, Device device,
                                                                    int job_rank, const Observers& observers)>;
// init() uses the first entry.
inline constinit AnnexList<MakeDeviceGroup> device_groups{add_distributed_annexes};

}  // namespace tandem::distributed
