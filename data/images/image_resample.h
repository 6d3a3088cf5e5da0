// Resizing of 8-bit pictures as Pillow does it, to the same bits: of any part of the result, from only the part of the
// source that it is made of.
#pragma once

#include <tandem/core/array/array.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::data {

// How the outputs of one axis are made of its source: output i is the sum of weights[i * taps + k] times the source at
// first[i] + k, in units of 2^-22.
struct ResampleAxis {
  int taps = 0;
  std::vector<std::int32_t> first, weights;

  // What is read of the source: [begin(), end()).
  std::int64_t begin() const;
  std::int64_t end() const;
};

// Bilinear resizing of an axis of `size` source pixels: a triangle of weights around each output, as wide as two source
// pixels, or as two target pixels where that is more. `scale`: source pixels for each target pixel.
struct Triangle {
  std::int64_t size;
  double scale;

  std::pair<std::int64_t, std::int64_t> range(std::int64_t output) const;  // of the source: [begin, end)
  // Those of the range, which add up to 1.
  void weigh(std::int64_t output, std::vector<double>& weights) const;

 private:
  double support() const { return std::max(scale, 1.0); }
  double centre(std::int64_t output) const { return (static_cast<double>(output) + 0.5) * scale; }
};

// Positions `outputs` of an axis that is resized from `size` source pixels to `target`, bilinearly. `extent`: how much
// of the source is stretched over the target, where that is not all of it (the last pixel may lie partly outside).
ResampleAxis bilinear_axis(std::int64_t size, double extent, std::int64_t target,
                           const std::vector<std::int64_t>& outputs);
// The source position of each of the `target` outputs for nearest-neighbour resizing.
std::vector<std::int32_t> nearest_axis(std::int64_t size, std::int64_t target);

// source (3, h, w) u8, in memory pixel by pixel, whose first row and column are at (top, left) of what the axes count
// in. Writes rows.first.size() rows of columns.first.size() pixels, red, green and blue of each as table[0..2][value],
// and the rows `stride` floats apart.
void resample(const Array& source, std::int64_t top, std::int64_t left, const ResampleAxis& rows,
              const ResampleAxis& columns, const float (*table)[256], float* out, std::int64_t stride);

}  // namespace tandem::data
