// FlatParameters: the values or gradients of several parameters, in one array that is sent as one message.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/module.h>

#include <vector>

namespace tandem::distributed {

// `memory` comes from ProcessGroup::allocate, has no gaps and starts as zeros. parts[i] is a view of `memory`, with the
// shape of parameter i and its own version count. The owner may give the parts to the parameters as gradient buffers;
// then `memory` holds the gradients. Error unless all parameters have one dtype.
struct FlatParameters {
  FlatParameters(const std::vector<NamedTensor>& parameters, ProcessGroup& group);

  Array memory;  // (elements of all parameters)
  std::vector<Array> parts;
};

// The parameters of the model that require a gradient. Error when there is none.
std::vector<NamedTensor> trained_parameters(const nn::Module& model);

// Error when parameters have no gradient; it names them. Without this check the other ranks would wait for their
// gradients until the timeout.
void check_gradients(const std::vector<NamedTensor>& parameters, int rank);

// Copies the parameters and buffers of rank 0 to all other ranks. Collective. Error on all ranks when the shapes of
// their models differ.
void broadcast_state(const nn::Module& model, ProcessGroup& group);

}  // namespace tandem::distributed
