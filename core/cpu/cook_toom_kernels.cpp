#include <tandem/core/cpu/cook_toom_kernels.h>
#include <tandem/core/device/backend.h>
#include <tandem/core/ops/create.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

namespace {

constexpr int most_taps = 5;  // along an axis

// Calls f(panel of the taps, panel of the weight) for each panel, as (inputs, kernel h, kernel w, outputs).
template <class F>
void for_each_panel(const Array& taps, const Array& inputs_first, F f) {
  for (std::int64_t p = 0; p < taps.dim(0); ++p) {
    const std::int64_t first = p * taps.dim(3), count = std::min(taps.dim(3), inputs_first.dim(3) - first);
    const Array weight = inputs_first.narrow(3, first, count);
    f(taps.select(0, p).narrow(2, 0, count).view(weight.shape()), weight);
  }
}

Shape shape_of_taps(std::int64_t inputs, std::int64_t taps, std::int64_t outputs) {
  const std::int64_t width = panel_width(outputs);
  return {(outputs + width - 1) / width, inputs, taps, width};
}

}  // namespace

KernelTaps::KernelTaps(const Array& weight, bool turned) : turned(turned) {
  const Array inputs_first = weight.permute(turned ? Dims{0, 2, 3, 1} : Dims{1, 2, 3, 0});
  const std::int64_t outputs = inputs_first.dim(3);
  const Shape shape = shape_of_taps(inputs_first.dim(0), inputs_first.dim(1) * inputs_first.dim(2), outputs);
  array = outputs == shape[0] * shape[3] ? Array::empty(shape) : ops::zeros(shape);
  for_each_panel(array, inputs_first, [](const Array& taps, const Array& from) { backend({}).copy(from, taps); });
}

KernelTaps::KernelTaps(std::int64_t inputs, std::int64_t taps, std::int64_t outputs)
    : array(Array::empty(shape_of_taps(inputs, taps, outputs))), turned(false) {}

void KernelTaps::copy_to(const Array& weight) const {
  for_each_panel(array, weight.permute({1, 2, 3, 0}),
                 [](const Array& taps, const Array& to) { backend({}).copy(taps, to); });
}

// Calls f(first number of the matrix's row, first number of the taps) for each input and vector of outputs.
template <class F>
void PlaceMatrices::for_each_vector(const KernelTaps& taps, Begin begin, std::int64_t p, F f) const {
  const std::int64_t columns = std::min(width(), outputs - p * width());
  for (std::int64_t c = 0; c < inputs; ++c) {
    const std::int64_t place = (begin.panel + p) * taps.array.dim(1) + begin.input + c;
    float* const tap = taps.array.data<float>() + place * taps.array.dim(2) * taps.width();
    for (std::int64_t o = 0; o < columns; o += lanes) f(p * panel_numbers() + c * width() + o, tap + o);
  }
}

// The taps of each row of the kernel become one number, at the column's place; these numbers are then transformed.
void PlaceMatrices::from_taps(const KernelTaps& taps, Begin begin, std::int64_t column, std::int64_t p,
                              float* places) const {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const float* const factors = columns.kernel_elements + column * columns.r;
  std::array<float, static_cast<std::size_t>(most_taps * lanes)> row_taps;
  for_each_vector(taps, begin, p, [&](std::int64_t at, const float* tap) {
    for (int h = 0; h < rows.r; ++h) {
      Lanes sum{};
      for (int w = 0; w < columns.r; ++w, tap += taps.width())
        sum += factors[taps.turned ? columns.r - 1 - w : w] * load<lanes>(tap);
      store<lanes>(&row_taps[static_cast<std::size_t>((taps.turned ? rows.r - 1 - h : h) * lanes)], sum);
    }
    rows.kernel({row_taps.data(), lanes}, {places + at, place_step(), 0}, {1, 1, lanes});
  });
}

void PlaceMatrices::to_taps(const float* places, std::int64_t column, std::int64_t p, bool add, Begin begin,
                            const KernelTaps& taps) const {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const float* const factors = columns.kernel_elements + column * columns.r;
  std::array<float, static_cast<std::size_t>(most_taps * lanes)> row_taps;
  for_each_vector(taps, begin, p, [&](std::int64_t at, float* tap) {
    rows.kernel_grad({places + at, place_step(), 0}, {row_taps.data(), lanes}, {1, 1, lanes}, nullptr);
    for (int h = 0; h < rows.r; ++h) {
      const Lanes row_tap = load<lanes>(&row_taps[static_cast<std::size_t>(h * lanes)]);
      for (int w = 0; w < columns.r; ++w, tap += taps.width())
        store<lanes>(tap, add ? load<lanes>(tap) + factors[w] * row_tap : factors[w] * row_tap);
    }
  });
}

}  // namespace tandem::cpu
