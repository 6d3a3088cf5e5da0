// The first lines that a training prints: which program runs on what hardware, and how large the model, data and batch
// are.
#pragma once

#include <tandem/data/loader.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// Returns the lines. `lrs` are the learning rates of all parameter groups. Collective, because rank 0 does not know the
// other ranks' threads.
std::vector<std::string> introduction(const TrainingOptions& options, ProcessGroup& group, const nn::Module& model,
                                      const data::Loader& loader, std::int64_t steps_per_epoch,
                                      const std::vector<double>& lrs);

}  // namespace tandem::distributed
