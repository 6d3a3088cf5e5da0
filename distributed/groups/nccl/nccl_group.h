// A process group for arrays on GPUs: NCCL.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>

#include <memory>

namespace tandem::distributed {

// A group whose operations on arrays of `device`, a GPU, go over NCCL, and all others over `host`: those on host memory
// (texts, counts, the order of gradients), barriers, and messages between two ranks. Collective over the ranks of
// `host`, each of which brings a GPU of its own: Error, before NCCL starts, that names two ranks with the same one
// (TANDEM_ALLOW_SHARED_GPU=1 lets them pass, for tests). `job_rank` is this process's rank in the whole job.
//
// An operation runs in a stream of its own, of high priority: it begins when what this thread has started on the GPU is
// done, and what comes after Work::wait() begins when the operation is done. The host waits for neither, and a CUDA
// graph may record both. send() and receive() go through host memory, because NCCL's message would wait for its
// receiver, and this group's must not.
//
// A thread of the group watches NCCL and the peers. When an operation fails, does not end within the timeout or is left
// alone by a peer, it stops NCCL on this GPU and tells all ranks which rank was missing. The contents of the GPU's
// memory are then undefined, so the next read from it throws that PeerError too. `observers` observe the operations on
// the GPU. Not in builds without CUDA.
std::shared_ptr<ProcessGroup> nccl_group(std::shared_ptr<ProcessGroup> host, Device device, int job_rank,
                                         const Observers& observers);

}  // namespace tandem::distributed
