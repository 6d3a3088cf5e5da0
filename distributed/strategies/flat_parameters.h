// FlatParameters: the values or gradients of several parameters in one array, which is sent as one message.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/module.h>

#include <vector>

namespace tandem::distributed {

// `memory` comes from ProcessGroup::allocate(), has no gaps and starts as zeros. parts[i] is a view of `memory`, with
// the shape of parameter i and its own version count. The owner may use the parts as gradient buffers of the
// parameters, so that `memory` holds the gradients. Throws an Error unless all parameters have the same dtype.
struct FlatParameters {
  FlatParameters(const std::vector<NamedTensor>& parameters, ProcessGroup& group);

  Array memory;  // (elements of all parameters)
  std::vector<Array> parts;
};

// Returns the parameters of the model that require a gradient. Throws an Error if no parameter does.
std::vector<NamedTensor> trained_parameters(const nn::Module& model);

// Throws an Error that names the parameters without a gradient, if there are any. Without this check, the other ranks
// would wait for these gradients until the timeout.
void check_gradients(const std::vector<NamedTensor>& parameters, int rank);

// Copies the parameters and buffers of rank 0 to all other ranks. Collective. Throws an Error on all ranks if the
// shapes of their models differ.
void broadcast_state(const nn::Module& model, ProcessGroup& group);

}  // namespace tandem::distributed
