// Faults of versions of oneDNN. Other code computes the layers that a fault affects.
#pragma once

#include <string>

namespace tandem::onednn {

enum class Fault {
  wide_forward,      // outputs: a kernel whose reach exceeds 7 pixels and the image's width
  odd_outputs_bf16,  // the input's gradient of a 1 x 1 kernel in bf16, with an odd number of outputs
  odd_inputs_bf16,   // bf16 with an odd number of inputs: an Inf spreads to the previous pixel
  weight_sums_bf16,  // the weight's gradient in bf16, if the kernel is dilated or larger than the image
};

// Returns whether the oneDNN that this process has loaded has the fault on this processor, according to the table in
// the source. A version that was not tested is assumed to have it.
bool has(Fault fault);

// Returns the version of the loaded library: "3.7.1".
std::string loaded_version();

// For tests/long/onednn_faults, which runs every layer with oneDNN: from now on has() returns false.
void forget_faults();

}  // namespace tandem::onednn
