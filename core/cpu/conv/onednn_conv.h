// Convolutions by oneDNN, for the layers that no method before it in the list computes faster.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

class TapConv;

// The method: it pays where oneDNN has a kernel, and a product for each tap is not faster.
std::unique_ptr<ConvMethod> make_onednn_conv(const ConvLayer& layer);

// Whether oneDNN's gradient of the weight is right for images of bf16 (Fault::weight_sums_bf16).
bool onednn_sums_bf16_correctly(const ConvLayer& layer);

// The time that oneDNN takes, as a fraction of what it would take to compute all products of the kernel. oneDNN skips
// rows of padding, and also columns of padding if the kernel is dilated. `taps` belongs to the same layer.
double onednn_share(const ConvLayer& layer, const TapConv& taps);

}  // namespace tandem::cpu
