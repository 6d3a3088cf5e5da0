// Resizing of images and signals. Results have the dtype of the input.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/resize.h>
#include <tandem/core/formulas/window.h>

#include <optional>

namespace tandem {

struct ScaleFactor {
  double h, w;
  ScaleFactor(double both) : h(both), w(both) {}  // NOLINT: 2 doubles the size
  ScaleFactor(double height, double width) : h(height), w(width) {}
};
struct InterpolateOptions {
  std::optional<Extent> size = std::nullopt;               // set either this
  std::optional<ScaleFactor> scale_factor = std::nullopt;  // or this: size = input * factor, rounded down
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // bilinear only: whether the centres of the corner pixels stay in place
};

// Resizes x (N, C, H, W) to another height and width, or x (N, C, L) to another length (nearest or linear). x must have
// the dimension N. nearest accepts u8 too.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace tandem
