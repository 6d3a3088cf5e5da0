// An optimizer in a file of its own, which a few lines of Python turn into what torch.optim's load_state_dict() takes,
// and back: docs/optimizers.md has them.
#pragma once

#include <tandem/optim/optimizer.h>

#include <filesystem>

namespace tandem::optim {

// safetensors: the state_dict(), and as metadata "optimizer" (PyTorch's name of the class) and "param_groups", JSON:
// for each group its options by PyTorch's names, and "params", the names of its parameters in order.
void save_optimizer(const std::filesystem::path& path, const Optimizer& optimizer);

// State and options. Options that only PyTorch has (how it computes) are left out. Error when the file is of another
// optimizer or other groups; nothing is changed then.
void load_optimizer(const std::filesystem::path& path, Optimizer& optimizer);

}  // namespace tandem::optim
