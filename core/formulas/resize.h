// Says which elements of an image contribute to each position of the resized image. The arithmetic is PyTorch's and the
// same on every device.
#pragma once

#include <tandem/core/base/half.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tandem {

enum class Interpolation { nearest, bilinear, linear = bilinear };

// Resizing along one dimension: `in` elements become `out`. R, float or double, is the type in which positions are
// computed.
template <class R>
struct ResizeAxis {
  std::int64_t in, out;
  Interpolation mode;
  bool align_corners;
  R scale;  // a distance in the output times `scale` is the distance in the input

  // `factor` is the caller's scale factor, or 0 if there is none.
  ResizeAxis(std::int64_t elements, std::int64_t wanted, Interpolation how, bool corners_align, double factor)
      : in(elements), out(wanted), mode(how), align_corners(corners_align) {
    if (align_corners) scale = out > 1 ? static_cast<R>(in - 1) / static_cast<R>(out - 1) : R(0);
    else scale = factor > 0 ? static_cast<R>(1 / factor) : static_cast<R>(in) / static_cast<R>(out);
  }

  // An output is weight0 * element i0 + weight1 * element i1. Both indices grow with the output's position.
  struct Taps {
    std::int64_t i0, i1;
    R weight0, weight1;
  };
  TANDEM_HOST_DEVICE Taps taps(std::int64_t output) const {
    if (mode == Interpolation::nearest) {
      const auto at = static_cast<std::int64_t>(std::floor(scale * static_cast<R>(output)));
      const std::int64_t i = at < in - 1 ? at : in - 1;
      return {i, i, R(1), R(0)};
    }
    if (in == out) return {output, output, R(1), R(0)};
    R at = align_corners ? scale * static_cast<R>(output) : scale * (static_cast<R>(output) + R(0.5)) - R(0.5);
    at = at < R(0) ? R(0) : at;
    const auto below = static_cast<std::int64_t>(std::floor(at));
    const std::int64_t i0 = below < in - 1 ? below : in - 1;
    R weight1 = at - static_cast<R>(i0);
    weight1 = weight1 < R(1) ? weight1 : R(1);
    return {i0, i0 < in - 1 ? i0 + 1 : i0, R(1) - weight1, weight1};
  }

  // Returns the weight of element `i` in an output with these taps.
  TANDEM_HOST_DEVICE static R weight_of(std::int64_t i, const Taps& t) {
    return (t.i0 == i ? t.weight0 : R(0)) + (t.i1 == i ? t.weight1 : R(0));
  }
  // Returns the first output to which element i, or a later element, contributes. The outputs to which element i
  // contributes are consecutive.
  TANDEM_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    const double guess = scale > R(0) ? (static_cast<double>(i) - 1) / static_cast<double>(scale) : 0;
    std::int64_t o = guess < 1 ? 0 : guess >= static_cast<double>(out) ? out - 1 : static_cast<std::int64_t>(guess);
    while (o > 0 && taps(o - 1).i1 >= i) --o;
    while (o < out && taps(o).i1 < i) ++o;
    return o;
  }
};

struct Resize {
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
  double factor_h = 0, factor_w = 0;  // the caller's scale factors, or 0

  template <class R>
  ResizeAxis<R> h(std::int64_t in, std::int64_t out) const {
    return {in, out, mode, align_corners, factor_h};
  }
  template <class R>
  ResizeAxis<R> w(std::int64_t in, std::int64_t out) const {
    return {in, out, mode, align_corners, factor_w};
  }
};

}  // namespace tandem
