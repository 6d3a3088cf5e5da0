// What each kind of operation is in NCCL's terms.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <nccl.h>

namespace tandem::distributed {

// NCCL takes the ranks' parts of an all_gather's outputs and of a reduce_scatter's inputs as one array. The same
// operation on arrays of which these lie one behind the other: the given ones where they do, else room for the outputs
// and copies of the inputs, which are made in the current stream.
Operation adjacent(Operation contiguous);

// Issues what adjacent() has made, in `stream`.
ncclResult_t issue(const Operation& operation, ncclComm_t communicator, cudaStream_t stream);

}  // namespace tandem::distributed
