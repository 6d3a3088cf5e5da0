// Ring all-reduce, written out with messages between neighbours, and training with it.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>
#include <tandem/distributed/groups/process_group.h>
#include <vector>

namespace tandem::distributed {

// Does what group.all_reduce(array, op)->wait() does, for op sum or mean. Each rank sends only to the next rank, and
// receives only from the rank before it. Any group size, any number of elements, any strides. The result is bitwise
// identical on all ranks. For an array of n bytes on W ranks, each rank sends 2 (W - 1) / W n bytes and receives as
// many: always less than 2 n. Collective; blocks. (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009.)
void ring_all_reduce(ProcessGroup& group, const Array& array, ReduceOp op = ReduceOp::sum);

// Data parallelism with ring_all_reduce, as a hook of DistributedDataParallel:
//
//   DistributedDataParallel ddp(model, group);
//   ddp.set_communication_hook(ring_hook());
//
// Each bucket goes round the ring when it is full. The backward pass waits for it, so nothing overlaps.
CommunicationHook ring_hook();

}  // namespace tandem::distributed
