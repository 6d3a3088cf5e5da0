#include <tandem/core/array/packing.h>
#include <tandem/distributed/strategies/flat_parameters.h>

#include <memory>

namespace tandem::distributed {

FlatParameters::FlatParameters(const std::vector<NamedTensor>& parameters, ProcessGroup& group) {
  const DType dtype = parameters.at(0).tensor.dtype();
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : parameters) {
    TANDEM_CHECK(tensor.dtype() == dtype, "parameter ", name, " is ", tensor.dtype(), ", ", parameters[0].name, " is ",
                 dtype, ": all parameters in one message must have the same dtype");
    elements += tensor.numel();
  }
  memory = group.allocate({elements}, dtype, parameters.at(0).tensor.device());
  Packing packing(memory.storage(), 1);
  for (const auto& [name, tensor] : parameters) parts.push_back(packing.next(tensor.shape(), dtype));
}

std::vector<NamedTensor> trained_parameters(const nn::Module& model) {
  auto parameters = model.parameters();
  std::erase_if(parameters, [](const NamedTensor& p) { return !p.tensor.requires_grad(); });
  TANDEM_CHECK(!parameters.empty(), "this model has no parameter that requires a gradient");
  return parameters;
}

void check_gradients(const std::vector<NamedTensor>& parameters, int rank) {
  std::string missing;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.grad().defined()) missing += (missing.empty() ? "" : ", ") + name;
  }
  TANDEM_CHECK(missing.empty(), "rank ", rank, ": no gradient for ", missing,
               ". Call backward() first; every parameter must contribute to the loss; call "
               "set_requires_grad(false) on a parameter that should not");
}

void broadcast_state(const nn::Module& model, ProcessGroup& group) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& [name, array] : model.state_dict()) works.push_back(group.broadcast(array, 0, name));
  for (const auto& work : works) work->wait();
}

}  // namespace tandem::distributed
