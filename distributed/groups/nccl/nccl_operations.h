// What each kind of operation is in NCCL's terms.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <nccl.h>

namespace tandem::distributed {

// The same operation on arrays as NCCL wants them, contiguous and, where there is one for each rank, one behind the
// other: the given ones where they are that, else copies of the inputs and room for the outputs. The copies are made in
// the current stream.
Operation contiguous_operation(const Operation& given);

// Issues what contiguous_operation has made, in `stream`.
ncclResult_t issue(const Operation& operation, ncclComm_t communicator, cudaStream_t stream);

}  // namespace tandem::distributed
