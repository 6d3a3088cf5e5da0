// RowBands: the output rows of all images, divided into bands. A band is computed from one copy of the image rows that
// it reads. Rows at the borders of bands are then copied rarely, and the copy stays in the cache.
#pragma once

#include <tandem/core/base/shape.h>
#include <tandem/core/formulas/window.h>

#include <algorithm>

namespace tandem::cpu {

// `rows` output rows of an image, starting at `first`. `top` is the first image row that they read; it is negative if
// that row is padding.
struct RowBand {
  std::int64_t image, first, rows, top;
};

class RowBands {
 public:
  static constexpr std::int64_t most_rows = 8;  // of a band

  RowBands(const Window& window, const Shape& y)
      : images_(y[0]), height_(y[2]), stride_(window.stride.h), padding_(window.padding.h) {}
  std::int64_t count() const { return images_ * in_image(); }
  RowBand operator[](std::int64_t i) const {
    const std::int64_t first = i % in_image() * most_rows;
    return {i / in_image(), first, std::min(most_rows, height_ - first), first * stride_ - padding_};
  }

 private:
  std::int64_t in_image() const { return (height_ + most_rows - 1) / most_rows; }

  std::int64_t images_, height_, stride_, padding_;
};

}  // namespace tandem::cpu
