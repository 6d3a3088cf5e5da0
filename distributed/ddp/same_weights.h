// Checks that all ranks hold the same weights. If only one rank loads weights or sets a learning rate, the ranks
// diverge, and no gradient shows it.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/data/epoch.h>
#include <tandem/distributed/groups/process_group.h>

#include <vector>

namespace tandem::distributed {

// Compares the epoch and seed of the Loader and the bits of the parameters over the ranks, with a checksum of 8 bytes
// for each parameter. Collective. If they differ, all ranks throw an Error that names the first parameter that differs,
// and the ranks whose values differ from rank 0's.
void check_same_weights(const std::vector<NamedTensor>& parameters, const data::Epoch& epoch, ProcessGroup& group);

}  // namespace tandem::distributed
