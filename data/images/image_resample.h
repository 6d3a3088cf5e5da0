// Resizes 8-bit images like Pillow, bit for bit. Any part of the result can be computed separately, and then only the
// source pixels of that part are needed.
#pragma once

#include <tandem/core/array/array.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::data {

// How the outputs along one axis are computed from source pixels. Output i is the sum over k of weights[i * taps + k]
// times source pixel first[i] + k. The weights are in units of 2^-22.
struct ResampleAxis {
  int taps = 0;
  std::vector<std::int32_t> first, weights;

  // The source pixels that are read: [begin(), end()).
  std::int64_t begin() const;
  std::int64_t end() const;
};

// The weights of bilinear resizing along an axis of `size` source pixels. They form a triangle around the centre of
// each output. The triangle is two source pixels wide, or two target pixels if those are larger. `scale` is the number
// of source pixels per target pixel.
struct Triangle {
  std::int64_t size;
  double scale;

  // The source pixels [begin, end) that have a weight in the output.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t output) const;
  // Sets `weights` to the weights of the source pixels in range(output). Their sum is 1.
  void weigh(std::int64_t output, std::vector<double>& weights) const;

 private:
  double support() const { return std::max(scale, 1.0); }
  double centre(std::int64_t output) const { return (static_cast<double>(output) + 0.5) * scale; }
};

// Bilinear resizing of an axis from `size` source pixels to `target` pixels. Only the target positions `outputs` are
// computed. The first `extent` source pixels are stretched over the target; the last of them may lie partly outside.
ResampleAxis bilinear_axis(std::int64_t size, double extent, std::int64_t target,
                           const std::vector<std::int64_t>& outputs);
// The source position of each of the `target` outputs, for nearest-neighbour resizing.
std::vector<std::int32_t> nearest_axis(std::int64_t size, std::int64_t target);

// Resizes `source`, a part (3, h, w) u8 of an image, channels last in memory. Its first row and column have the numbers
// `top` and `left` in the coordinates of `rows` and `columns`. Writes rows.first.size() rows of columns.first.size()
// pixels to `out`. A pixel is written as red, green and blue; the value v of channel c becomes table[c][v]. Rows start
// `stride` floats apart.
void resample(const Array& source, std::int64_t top, std::int64_t left, const ResampleAxis& rows,
              const ResampleAxis& columns, const float (*table)[256], float* out, std::int64_t stride);

}  // namespace tandem::data
