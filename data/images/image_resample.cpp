#include <tandem/data/images/image_resample.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::data {

namespace {

constexpr int precision = 22;  // the fraction of a weight has as many bits as in Pillow
constexpr std::int32_t half = 1 << (precision - 1);

// Resamples one row of pixels. The loop reads and writes four bytes per pixel, although a pixel has three. Both rows
// therefore need one extra byte at the end.
template <int Taps>
void resample_row(const std::uint8_t* source, std::int64_t left, const ResampleAxis& axis, std::uint8_t* out) {
  const int taps = Taps > 0 ? Taps : axis.taps;
  const std::size_t count = axis.first.size();
  for (std::size_t x = 0; x < count; ++x) {
    const std::uint8_t* pixel = source + 3 * (axis.first[x] - left);
    const std::int32_t* weight = axis.weights.data() + x * static_cast<std::size_t>(taps);
    std::int32_t sum[4] = {half, half, half, half};
    for (int k = 0; k < taps; ++k)
      for (int c = 0; c < 4; ++c) sum[c] += pixel[3 * k + c] * weight[k];
    std::uint8_t value[4];
    for (int c = 0; c < 4; ++c) value[c] = static_cast<std::uint8_t>(sum[c] >> precision);
    std::memcpy(out + 3 * x, value, 4);
  }
}

// Adds up several rows, each multiplied by its weight, byte by byte.
template <int Taps>
void blend_rows(const std::uint8_t* rows, std::int64_t stride, const std::int32_t* weight, int taps, std::int64_t bytes,
                std::uint8_t* out) {
  constexpr std::int64_t block = 64;
  const int count = Taps > 0 ? Taps : taps;
  for (std::int64_t x = 0; x < bytes; x += block) {
    // The loop works on whole blocks, so the rows are a block longer than `bytes`.
    std::int32_t sum[block];
    for (std::int64_t i = 0; i < block; ++i) sum[i] = half;
    for (int k = 0; k < count; ++k)
      for (std::int64_t i = 0; i < block; ++i) sum[i] += rows[k * stride + x + i] * weight[k];
    for (std::int64_t i = 0; i < block; ++i) out[x + i] = static_cast<std::uint8_t>(sum[i] >> precision);
  }
}

}  // namespace

std::int64_t ResampleAxis::begin() const { return *std::min_element(first.begin(), first.end()); }
std::int64_t ResampleAxis::end() const { return *std::max_element(first.begin(), first.end()) + taps; }

std::pair<std::int64_t, std::int64_t> Triangle::range(std::int64_t output) const {
  const double middle = centre(output), reach = support();
  const auto begin = std::clamp(static_cast<std::int64_t>(middle - reach + 0.5), std::int64_t{0}, size - 1);
  return {begin, std::clamp(static_cast<std::int64_t>(middle + reach + 0.5), begin + 1, size)};
}

void Triangle::weigh(std::int64_t output, std::vector<double>& weights) const {
  const auto [begin, end] = range(output);
  const double middle = centre(output), reach = support();
  weights.clear();
  double sum = 0;
  for (std::int64_t k = begin; k < end; ++k) {
    const double distance = std::abs((static_cast<double>(k) - middle + 0.5) * (1.0 / reach));
    weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
    sum += weights.back();
  }
  if (sum != 0)
    for (double& weight : weights) weight /= sum;
}

ResampleAxis bilinear_axis(std::int64_t size, double extent, std::int64_t target,
                           const std::vector<std::int64_t>& outputs) {
  const Triangle triangle{size, extent / static_cast<double>(target)};
  std::int64_t taps = 1;
  for (const std::int64_t output : outputs) {
    const auto [begin, end] = triangle.range(output);
    taps = std::max(taps, end - begin);
  }
  ResampleAxis axis;
  axis.taps = static_cast<int>(taps);
  axis.first.reserve(outputs.size());
  axis.weights.assign(outputs.size() * static_cast<std::size_t>(taps), 0);
  std::int32_t* weights = axis.weights.data();
  std::vector<double> weight;
  for (const std::int64_t output : outputs) {
    const std::int64_t begin = triangle.range(output).first;
    triangle.weigh(output, weight);
    // Every output has the same number of weights. If they would extend beyond the end of the source, they start
    // earlier, and the first ones are zero.
    const std::int64_t first = std::min(begin, size - taps);
    for (std::size_t k = 0; k < weight.size(); ++k)
      weights[begin - first + static_cast<std::int64_t>(k)] =
          static_cast<std::int32_t>(0.5 + weight[k] * (1 << precision));
    axis.first.push_back(static_cast<std::int32_t>(first));
    weights += taps;
  }
  return axis;
}

std::vector<std::int32_t> nearest_axis(std::int64_t size, std::int64_t target) {
  // Pillow adds the step again and again. Multiplying by an index would round differently.
  const double step = static_cast<double>(size) / static_cast<double>(target);
  double position = step * 0.5;
  std::vector<std::int32_t> sources;
  sources.reserve(static_cast<std::size_t>(target));
  for (std::int64_t i = 0; i < target; ++i, position += step)
    sources.push_back(static_cast<std::int32_t>(std::min(static_cast<std::int64_t>(position), size - 1)));
  return sources;
}

void resample(const Array& source, std::int64_t top, std::int64_t left, const ResampleAxis& rows,
              const ResampleAxis& columns, const float (*table)[256], float* out, std::int64_t stride) {
  TANDEM_CHECK(source.dtype() == DType::u8 && source.ndim() == 3 && source.dim(0) == 3 && source.strides()[0] == 1 &&
                   source.strides()[2] == 3,
               "resample: expected (3, H, W) u8 in channels-last order, got ", source.shape(), ' ', source.dtype());
  const std::int64_t begin = rows.begin(), end = rows.end();
  TANDEM_CHECK(
      begin >= top && end <= top + source.dim(1) && columns.begin() >= left && columns.end() <= left + source.dim(2),
      "resample: rows ", begin, " to ", end, " and columns ", columns.begin(), " to ", columns.end(),
      " are needed, the source has ", source.dim(1), " from ", top, " on and ", source.dim(2), " from ", left, " on");
  const auto width = static_cast<std::int64_t>(columns.first.size());
  constexpr std::int64_t slack = 64;  // how far blend_rows reads beyond the end of a row, in bytes
  const std::int64_t pitch = 3 * width + slack;

  // As in Pillow, the columns are resized first and rounded to 8 bits, then the rows.
  const Array narrowed = Array::empty({(end - begin) * pitch}, DType::u8);
  auto* const middle = narrowed.data<std::uint8_t>();
  const std::int64_t source_pitch = source.strides()[1];
  std::vector<std::uint8_t> last(static_cast<std::size_t>(3 * source.dim(2)) + 1);
  for (std::int64_t y = begin; y < end; ++y) {
    const std::uint8_t* row = source.data<std::uint8_t>() + (y - top) * source_pitch;
    // The byte that resample_row reads beyond the end may not exist after the last row, so that row is copied.
    if (y - top == source.dim(1) - 1) {
      std::copy_n(row, last.size() - 1, last.begin());
      row = last.data();
    }
    std::uint8_t* result = middle + (y - begin) * pitch;
    if (columns.taps == 2) resample_row<2>(row, left, columns, result);
    else if (columns.taps == 3) resample_row<3>(row, left, columns, result);
    else resample_row<0>(row, left, columns, result);
    std::fill_n(result + 3 * width, slack, std::uint8_t{0});
  }

  std::vector<std::uint8_t> values(static_cast<std::size_t>(pitch));
  const float *red = table[0], *green = table[1], *blue = table[2];
  for (std::size_t y = 0; y < rows.first.size(); ++y, out += stride) {
    const std::uint8_t* first = middle + (rows.first[y] - begin) * pitch;
    const std::int32_t* weight = rows.weights.data() + y * static_cast<std::size_t>(rows.taps);
    if (rows.taps == 2) blend_rows<2>(first, pitch, weight, 2, 3 * width, values.data());
    else if (rows.taps == 3) blend_rows<3>(first, pitch, weight, 3, 3 * width, values.data());
    else blend_rows<0>(first, pitch, weight, rows.taps, 3 * width, values.data());
    for (std::int64_t x = 0; x < width; ++x) {
      out[3 * x] = red[values[static_cast<std::size_t>(3 * x)]];
      out[3 * x + 1] = green[values[static_cast<std::size_t>(3 * x + 1)]];
      out[3 * x + 2] = blue[values[static_cast<std::size_t>(3 * x + 2)]];
    }
  }
}

}  // namespace tandem::data
