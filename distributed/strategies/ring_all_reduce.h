// Ring all-reduce, implemented with messages between neighbours, and training with it.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>
#include <tandem/distributed/groups/process_group.h>
#include <vector>

namespace tandem::distributed {

// Does the same as group.all_reduce(array, op)->wait(), for the operations sum and mean. Each rank sends only to the
// next rank, and receives only from the previous rank. Group size, number of elements and strides are arbitrary. The
// result is bitwise identical on all ranks. For an array of n bytes on W ranks, each rank sends and receives 2 (W - 1)
// / W n bytes, which is always less than 2 n. Collective, and blocks. (Patarasuk, Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009.)
void ring_all_reduce(ProcessGroup& group, const Array& array, ReduceOp op = ReduceOp::sum);

// Data parallelism with ring_all_reduce, as a hook of DistributedDataParallel:
//
//   DistributedDataParallel ddp(model, group);
//   ddp.set_communication_hook(ring_hook());
//
// Each bucket travels around the ring when it is full. The backward pass waits for it, so communication does not
// overlap with computation.
CommunicationHook ring_hook();

}  // namespace tandem::distributed
