// Makes optimizers by PyTorch's names, as golden files and Python use them.
#pragma once

#include <tandem/optim/optimizer.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tandem::testing {

// Returns null if this build leaves the optimizer out.
std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& kind, std::vector<NamedTensor> parameters,
                                                 const nlohmann::json& options);

}  // namespace tandem::testing
