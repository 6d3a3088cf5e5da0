// Operations on images (N, C, H, W), which are channels last in memory, and on signals (N, C, L). A single image (C, H,
// W) or signal (C, L) is taken too, unless something else is said. For a signal an Extent holds one number. Inputs are
// floating, and results have the dtype of the input. Weights and biases may be f32 when the input is 16-bit.
#pragma once

#include <tandem/autograd/functions/reduce.h>
#include <tandem/core/formulas/resize.h>
#include <tandem/core/formulas/window.h>

#include <optional>

namespace tandem {

struct ConvOptions {
  Extent stride = 1;
  Extent padding = 0;  // zeros on both sides
  Extent dilation = 1;
  std::int64_t groups = 1;  // an output channel sees only the input channels of its group
};

// weight (O, C / groups, KH, KW), bias (O) or undefined -> (N, O, OH, OW), where
// OH = (H + 2 * padding - dilation * (KH - 1) - 1) / stride + 1, rounded down. Error when groups don't divide C and O,
// or when the kernel is larger than the padded input.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
// weight (O, C / groups, K) -> (N, O, OL)
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  Extent stride = 1;
  Extent padding = 0;
  Extent output_padding = 0;  // more rows and columns at the end; less than the stride or the dilation
  std::int64_t groups = 1;
  Extent dilation = 1;
};

// Computes what the gradient of conv2d with respect to its input computes. weight (C, O / groups, KH, KW), bias (O) or
// undefined -> (N, O, OH, OW), where OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
// weight (C, O / groups, K) -> (N, O, OL)
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});

struct MaxPoolOptions {
  Extent kernel_size;
  std::optional<Extent> stride = std::nullopt;  // default: the kernel's size
  Extent padding = 0;                           // padding is never the maximum
  Extent dilation = 1;
  bool ceil_mode = false;  // the last windows may reach beyond the padding
};

// The maximum of each window. The gradient goes to the first of equal elements, or to a NaN if there is one.
Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options);
Tensor max_pool1d(const Tensor& x, const MaxPoolOptions& options);
// The maxima and their positions, i64: row * W + column in x.
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const MaxPoolOptions& options);

struct AvgPoolOptions {
  Extent kernel_size;
  std::optional<Extent> stride = std::nullopt;  // default: the kernel's size
  Extent padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;                      // whether the zeros of the padding count
  std::optional<std::int64_t> divisor_override = {};  // divide by this instead
};

Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options);
Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options);

// Pools to a given size, whatever size the input has. Output o of O is made of the elements from o * H / O, rounded
// down, to (o + 1) * H / O, rounded up. keep_size in place of a number keeps the size of the input.
inline constexpr std::int64_t keep_size = -1;
Tensor adaptive_avg_pool2d(const Tensor& x, Extent output_size);
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size);
Tensor adaptive_max_pool2d(const Tensor& x, Extent output_size);

struct ScaleFactor {
  double h, w;
  ScaleFactor(double both) : h(both), w(both) {}  // NOLINT: 2 doubles the size
  ScaleFactor(double h, double w) : h(h), w(w) {}
};
struct InterpolateOptions {
  std::optional<Extent> size = std::nullopt;               // either this
  std::optional<ScaleFactor> scale_factor = std::nullopt;  // or this: size = input * factor, rounded down
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // bilinear only: whether the centres of the corner pixels stay where they are
};

// x (N, C, H, W) in another height and width, or x (N, C, L) in another length (nearest or linear). x must have N.
// nearest takes u8 too.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace tandem
