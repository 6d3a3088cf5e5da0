// Pooling of images (N, C, H, W), which are channels last in memory, and of signals (N, C, L). A single image (C, H, W)
// or signal (C, L) is accepted too. For a signal an Extent holds one number. Inputs are floating, and results have the
// dtype of the input.
#pragma once

#include <tandem/autograd/functions/reduce.h>
#include <tandem/core/formulas/window.h>

#include <optional>

namespace tandem {

struct MaxPool2dOptions {
  std::optional<Extent> stride = std::nullopt;  // default: the kernel size
  Extent padding = 0;                           // padding is never the maximum
  Extent dilation = 1;
  bool ceil_mode = false;  // the last windows may extend beyond the padding
};
using MaxPool1dOptions = MaxPool2dOptions;

// The maximum of each window: max_pool2d(x, 3, {.stride = 2, .padding = 1}). The gradient goes to the first of equal
// elements, or to a NaN if there is one.
Tensor max_pool2d(const Tensor& x, Extent kernel_size, const MaxPool2dOptions& options = {});
Tensor max_pool1d(const Tensor& x, Extent kernel_size, const MaxPool1dOptions& options = {});
// The maxima and their positions, i64: row * W + column in x.
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, Extent kernel_size, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  std::optional<Extent> stride = std::nullopt;  // default: the kernel size
  Extent padding = 0;                           // zeros
  bool ceil_mode = false;
  bool count_include_pad = true;                      // whether the zeros of the padding count
  std::optional<std::int64_t> divisor_override = {};  // divides by this number instead
};
using AvgPool1dOptions = AvgPool2dOptions;

Tensor avg_pool2d(const Tensor& x, Extent kernel_size, const AvgPool2dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, Extent kernel_size, const AvgPool1dOptions& options = {});

// Pools to a given size, regardless of the input's size. Output o of O covers the elements from o * H / O, rounded
// down, to (o + 1) * H / O, rounded up. keep_size in place of a number keeps the size of the input.
inline constexpr std::int64_t keep_size = -1;
Tensor adaptive_avg_pool2d(const Tensor& x, Extent output_size);
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size);
Tensor adaptive_max_pool2d(const Tensor& x, Extent output_size);

}  // namespace tandem
