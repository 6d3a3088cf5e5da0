// FlatParameters: the values or gradients of several parameters, side by side in one array that travels as one message.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/module.h>

#include <vector>

namespace tandem::distributed {

// Zeros at first, in memory of the group's (ProcessGroup::allocate), without gaps. parts[i] is the view of `memory`
// that belongs to parameter i, of its shape, with a version count of its own. Holds gradients where the parts are given
// to the parameters as their gradient buffers. Error unless all parameters have one dtype.
struct FlatParameters {
  FlatParameters(const std::vector<NamedTensor>& parameters, ProcessGroup& group);

  Array memory;  // (elements of all parameters)
  std::vector<Array> parts;
};

// The model's parameters that require a gradient. Error when there is none.
std::vector<NamedTensor> trained_parameters(const nn::Module& model);

// Error that names the parameters without a gradient: the other ranks wait for theirs.
void check_gradients(const std::vector<NamedTensor>& parameters, int rank);

// Rank 0's parameters and buffers overwrite those of all others. Collective; an Error on all ranks where the models
// differ in a shape.
void broadcast_state(const nn::Module& model, ProcessGroup& group);

}  // namespace tandem::distributed
