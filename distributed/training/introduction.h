// The first lines of a training: what runs where, and how large it is.
#pragma once

#include <tandem/data/loader.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// `lrs`: of all parameter groups. Collective, as rank 0 does not know the threads of the others.
std::vector<std::string> introduction(const TrainingOptions& options, ProcessGroup& group, const nn::Module& model,
                                      const data::Loader& loader, std::int64_t steps_per_epoch,
                                      const std::vector<double>& lrs);

}  // namespace tandem::distributed
