// Whether all ranks hold the same weights: something that one rank does alone, such as loading weights or setting a
// learning rate, parts them, and no gradient shows it.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstdint>
#include <vector>

namespace tandem::distributed {

// Compares the bits of the parameters over the ranks, by a sum of 8 bytes for each, and the epoch of the Loader.
// Collective. An Error on all ranks names the first parameter that differs, and the ranks that have another one than
// rank 0.
void check_same_weights(const std::vector<NamedTensor>& parameters, std::int64_t epoch, ProcessGroup& group);

}  // namespace tandem::distributed
