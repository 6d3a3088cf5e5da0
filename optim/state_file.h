// Saves an optimizer in a file of its own. A few lines of Python convert the file for torch.optim's load_state_dict(),
// and back: docs/optimizers.md has these lines.
#pragma once

#include <tandem/optim/optimizer.h>

#include <filesystem>

namespace tandem::optim {

// Writes a safetensors file with the state_dict(). The metadata have two entries. "optimizer" is PyTorch's name of the
// class. "param_groups" is JSON: for each group its options by PyTorch's names, and "params", the names of its
// parameters in order.
void save_optimizer(const std::filesystem::path& path, const Optimizer& optimizer);

// Reads state and options. Options that only PyTorch has, which say how it computes, are left out. Error when the file
// is of another optimizer or has other groups. Then nothing is changed.
void load_optimizer(const std::filesystem::path& path, Optimizer& optimizer);

}  // namespace tandem::optim
