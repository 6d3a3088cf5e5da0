// Convolution of images (N, C, H, W), which are channels last in memory, and of signals (N, C, L). A single image (C,
// H, W) or signal (C, L) is accepted too. For a signal an Extent holds one number. Inputs are floating, and results
// have the dtype of the input. Under an Autocast, weights and biases may be f32 when the input is 16-bit.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/window.h>

namespace tandem {

struct ConvOptions {
  Extent stride = 1;
  Extent padding = 0;  // zeros on both sides
  Extent dilation = 1;
  std::int64_t groups = 1;  // an output channel depends only on the input channels of its group
};

// weight (O, C / groups, KH, KW), bias (O) or undefined -> (N, O, OH, OW), where
// OH = (H + 2 * padding - dilation * (KH - 1) - 1) / stride + 1, rounded down. Throws an Error if groups doesn't divide
// C and O, or if the kernel is larger than the padded input.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
// weight (O, C / groups, K) -> (N, O, OL)
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  Extent stride = 1;
  Extent padding = 0;
  Extent output_padding = 0;  // extra rows and columns at the end; less than the stride or the dilation
  std::int64_t groups = 1;
  Extent dilation = 1;
};

// Computes the gradient of conv2d with respect to its input. weight (C, O / groups, KH, KW), bias (O) or undefined ->
// (N, O, OH, OW), where OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
// weight (C, O / groups, K) -> (N, O, OL)
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});

}  // namespace tandem
