// Saves an optimizer in a separate file. A few lines of Python convert the file for torch.optim's load_state_dict(),
// and back: docs/optimizers.md has these lines.
#pragma once

#include <tandem/optim/optimizer.h>

#include <filesystem>

namespace tandem::optim {

// Writes a safetensors file with the state_dict(). The metadata has two entries. "optimizer" is PyTorch's class name.
// "param_groups" is JSON. For each group it has the options under PyTorch's names, and "params", the ordered list of
// parameter names.
void save_optimizer(const std::filesystem::path& path, const Optimizer& optimizer);

// Reads state and options. Options that only PyTorch has, which control how it computes, are ignored. Throws an Error
// and changes nothing if the file belongs to another optimizer or has other groups.
void load_optimizer(const std::filesystem::path& path, Optimizer& optimizer);

}  // namespace tandem::optim
