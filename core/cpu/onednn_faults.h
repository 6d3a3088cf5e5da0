// Faults of versions of oneDNN. A layer that meets one is computed by other code.
#pragma once

#include <string>

namespace tandem::onednn {

enum class Fault {
  wide_forward,      // outputs: a kernel that reaches over more than 7 pixels and over more than the image's width
  odd_outputs_bf16,  // the input's gradient of a 1 x 1 kernel in bf16, with an odd number of outputs
  odd_inputs_bf16,   // bf16 with an odd number of inputs: an Inf spreads to the pixel before it
  weight_sums_bf16,  // the weight's gradient in bf16, of a kernel that is dilated or larger than the image
};

// Whether the oneDNN that this process has loaded shows the fault on this processor, as far as is known: a version in
// which was not tried it is assumed to have it. The table is in the source.
bool has(Fault fault);

// "3.7.1": of the library that is loaded.
std::string loaded_version();

// For tests/long/onednn_faults, which tries every layer with oneDNN: from now on no fault is known.
void forget_faults();

}  // namespace tandem::onednn
