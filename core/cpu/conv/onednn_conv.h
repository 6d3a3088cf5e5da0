// Convolutions by oneDNN, for layers that no earlier method in the list computes faster.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

class TapConv;

// Creates the method. It pays if oneDNN has a kernel, and a product for each tap is not faster.
std::unique_ptr<ConvMethod> make_onednn_conv(const ConvLayer& layer);

// Returns whether oneDNN's gradient of the weight is correct for bf16 images (Fault::weight_sums_bf16).
bool onednn_sums_bf16_correctly(const ConvLayer& layer);

// Returns the time that oneDNN takes, as a fraction of the time for all products of the kernel. oneDNN skips rows of
// padding, and also columns of padding if the kernel is dilated. `taps` belongs to the same layer.
double onednn_share(const ConvLayer& layer, const TapConv& taps);

}  // namespace tandem::cpu
