#include <tandem/core/cpu/cook_toom_kernels.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/transpose.h>
#include <tandem/core/device/backend.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

namespace {

constexpr int most_taps = 7;  // along an axis

}  // namespace

KernelTaps::KernelTaps(std::int64_t inputs, std::int64_t taps, std::int64_t outputs, bool turned)
    : inputs(inputs),
      taps(taps),
      width(std::min(panel, padded(outputs))),
      array(Array::empty({(outputs + width - 1) / width, inputs, taps, width})),
      turned(turned) {}

KernelTaps::KernelTaps(const Array& any_weight, bool turned)
    : KernelTaps(any_weight.dim(turned ? 0 : 1), any_weight.dim(2) * any_weight.dim(3), any_weight.dim(turned ? 1 : 0),
                 turned) {
  const Array weight = any_weight.to(DType::f32).contiguous();
  const std::int64_t outputs = weight.dim(turned ? 1 : 0), panels = array.dim(0);
  if (outputs < panels * width) backend({}).fill(array, 0);
  const auto* const from = static_cast<const float*>(weight.raw());
  parallel_for(panels, weight.numel(), [&](std::int64_t p) {
    const std::int64_t first = p * width, count = std::min(width, outputs - first);
    float* const to = array.data<float>() + p * inputs * taps * width;
    if (!turned) return transpose(from + first * inputs * taps, count, inputs * taps, inputs * taps, to, width);
    for (std::int64_t c = 0; c < inputs; ++c)
      transpose(from + (c * outputs + first) * taps, count, taps, taps, to + c * taps * width, width);
  });
}

void KernelTaps::copy_to(const Array& weight) const {
  const Array result =
      weight.dtype() == DType::f32 && weight.is_contiguous() ? weight : Array::empty(weight.shape(), DType::f32);
  const std::int64_t outputs = weight.dim(turned ? 1 : 0), numbers = inputs * taps;
  parallel_for(array.dim(0), weight.numel(), [&](std::int64_t p) {
    const std::int64_t first = p * width, count = std::min(width, outputs - first);
    const float* const from = array.data<float>() + p * numbers * width;
    auto* const to = static_cast<float*>(result.raw());
    if (!turned) return transpose(from, numbers, count, width, to + first * numbers, numbers);
    for (std::int64_t c = 0; c < inputs; ++c)
      transpose(from + c * taps * width, taps, count, width, to + (c * outputs + first) * taps, taps);
  });
  if (result.raw() != weight.raw()) backend({}).copy(result, weight);
}

// Calls f(first number of the matrix's row, first number of the taps) for each input and vector of outputs.
template <class F>
void PlaceMatrices::for_each_vector(const KernelTaps& taps, Begin begin, std::int64_t p, F f) const {
  const std::int64_t columns = std::min(width(), outputs - p * width());
  float* const all = taps.array.data<float>();
  for (std::int64_t c = 0; c < inputs; ++c) {
    float* const tap = all + ((begin.panel + p) * taps.inputs + begin.input + c) * taps.taps * taps.width;
    for (std::int64_t o = 0; o < columns; o += lanes) f(p * panel_numbers() + c * width() + o, tap + o);
  }
}

// The taps of each row of the kernel become one number, at the column's place; these numbers are then transformed.
void PlaceMatrices::from_taps(const KernelTaps& taps, Begin begin, std::int64_t column, std::int64_t p,
                              float* places) const {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const float* const factors = columns.kernel_elements + column * columns.r;
  const std::int64_t step = taps.width;
  const auto row_at = [&](int h) { return taps.turned ? rows.r - 1 - h : h; };
  const auto column_at = [&](int w) { return taps.turned ? columns.r - 1 - w : w; };
  std::array<float, static_cast<std::size_t>(most_taps * lanes)> row_taps;
  for_each_vector(taps, begin, p, [&](std::int64_t at, const float* tap) {
    for (int h = 0; h < rows.r; ++h) {
      Lanes sum{};
      for (int w = 0; w < columns.r; ++w, tap += step) sum += factors[column_at(w)] * load<lanes>(tap);
      store<lanes>(&row_taps[static_cast<std::size_t>(row_at(h) * lanes)], sum);
    }
    rows.kernel({row_taps.data(), lanes}, {places + at, place_step(), 0}, {1, 1, lanes});
  });
}

void PlaceMatrices::to_taps(const float* places, std::int64_t column, std::int64_t p, bool add, Begin begin,
                            const KernelTaps& taps) const {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const float* const factors = columns.kernel_elements + column * columns.r;
  const std::int64_t step = taps.width;
  const auto row_at = [&](int h) { return taps.turned ? rows.r - 1 - h : h; };
  const auto column_at = [&](int w) { return taps.turned ? columns.r - 1 - w : w; };
  std::array<float, static_cast<std::size_t>(most_taps * lanes)> row_taps;
  for_each_vector(taps, begin, p, [&](std::int64_t at, float* tap) {
    rows.kernel_grad({places + at, place_step(), 0}, {row_taps.data(), lanes}, {1, 1, lanes}, {});
    for (int h = 0; h < rows.r; ++h) {
      const Lanes row_tap = load<lanes>(&row_taps[static_cast<std::size_t>(row_at(h) * lanes)]);
      for (int w = 0; w < columns.r; ++w, tap += step) {
        const Lanes part = factors[column_at(w)] * row_tap;
        store<lanes>(tap, add ? load<lanes>(tap) + part : part);
      }
    }
  });
}

void PlaceMatrices::multiply(const TilesInColumn& tiles, const float* places, const FromTiles& to) const {
  multiply_tiles<false>({.count = tiling.rows.scheme->n(),
                         .rows = tiles.count,
                         .inner = inputs,
                         .columns = outputs,
                         .a = tiles.data,
                         .a_line = tiles.line,
                         .a_next = tiles.place_step,
                         .b = places,
                         .b_panel = panel_numbers(),
                         .b_row = width(),
                         .b_next = place_step(),
                         .y = to.products(),
                         .y_panel = panel,
                         .y_row = outputs,
                         .y_next = to.place_step(),
                         .add = false});
}

void PlaceMatrices::sum(const TilesInColumn& in, const TilesInColumn& out, bool add, float* places) const {
  multiply_tiles<true>({.count = tiling.rows.scheme->n(),
                        .rows = inputs,
                        .inner = in.count,
                        .columns = outputs,
                        .a = in.data,
                        .a_line = in.line,
                        .a_next = in.place_step,
                        .b = out.data,
                        .b_panel = panel,
                        .b_row = out.line,
                        .b_next = out.place_step,
                        .y = places,
                        .y_panel = panel_numbers(),
                        .y_row = width(),
                        .y_next = place_step(),
                        .add = add});
}

}  // namespace tandem::cpu
