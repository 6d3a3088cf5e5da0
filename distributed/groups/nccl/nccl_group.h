// The process group for arrays on GPUs, over NCCL.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>

#include <memory>

namespace tandem::distributed {

// Returns a group whose operations on arrays of `device`, a GPU, go over NCCL. All other operations go over `host`:
// those on host memory (texts, counts, the order of gradients), barriers, and messages between two ranks. All ranks of
// `host` must call it, each with its own GPU. Throws an Error that names two ranks with the same GPU before NCCL
// starts, unless TANDEM_ALLOW_SHARED_GPU=1 is set, for tests. `job_rank` is this process's rank in the whole job.
//
// Operations run in a separate high-priority stream. An operation begins when all earlier GPU work of this thread is
// done. GPU work that is started after Work::wait() begins when the operation is done. The host waits for neither, and
// a CUDA graph may record both. send() and receive() go through host memory, because send() must not wait for the
// receiver, as NCCL's would.
//
// A thread of the group watches NCCL and the peers. When an operation fails, does not end within the timeout, or waits
// for a peer that has left, the thread stops NCCL on this GPU and tells all ranks which rank was missing. The contents
// of the GPU's memory are then undefined, so the next read from it also throws that PeerError. `observers` observe the
// operations on the GPU. Builds without CUDA don't have this function.
std::shared_ptr<ProcessGroup> nccl_group(std::shared_ptr<ProcessGroup> host, Device device, int job_rank,
                                         const Observers& observers);

}  // namespace tandem::distributed
