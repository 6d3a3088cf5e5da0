// Resizes 8-bit pictures as Pillow does, with the same bits. Any part of the result can be computed alone. Then only
// those pixels of the source are needed that this part is made of.
#pragma once

#include <tandem/core/array/array.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::data {

// How the outputs of one axis are made of source pixels. Output i is the sum over k of weights[i * taps + k] times the
// source pixel first[i] + k. The weights are in units of 2^-22.
struct ResampleAxis {
  int taps = 0;
  std::vector<std::int32_t> first, weights;

  // The source pixels that are read: [begin(), end()).
  std::int64_t begin() const;
  std::int64_t end() const;
};

// The weights of bilinear resizing, along an axis of `size` source pixels. They form a triangle around the centre of
// each output. The triangle is as wide as two source pixels, or as two target pixels where those are larger. `scale` is
// the number of source pixels for each target pixel.
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

// Bilinear resizing of an axis from `size` source pixels to `target` pixels. Only the positions `outputs` of the target
// are computed. The first `extent` source pixels are stretched over the target; the last of them may lie partly
// outside.
ResampleAxis bilinear_axis(std::int64_t size, double extent, std::int64_t target,
                           const std::vector<std::int64_t>& outputs);
// The source position of each of the `target` outputs, for nearest-neighbour resizing.
std::vector<std::int32_t> nearest_axis(std::int64_t size, std::int64_t target);

// Resizes `source`, a part (3, h, w) u8 of a picture, in memory pixel by pixel. Its first row and column have the
// numbers `top` and `left` in the coordinates of `rows` and `columns`. Writes rows.first.size() rows of
// columns.first.size() pixels to `out`. A pixel is written as red, green and blue; the value v of channel c becomes
// table[c][v]. The rows begin `stride` floats apart.
void resample(const Array& source, std::int64_t top, std::int64_t left, const ResampleAxis& rows,
              const ResampleAxis& columns, const float (*table)[256], float* out, std::int64_t stride);

}  // namespace tandem::data
