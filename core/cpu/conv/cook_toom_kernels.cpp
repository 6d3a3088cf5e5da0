#include <tandem/core/cpu/conv/cook_toom_kernels.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

namespace {

constexpr int most_taps = 7;              // along an axis
constexpr std::int64_t some_inputs = 16;  // their rows of taps fit into a first-level cache

// The rows of taps of some inputs, each row reduced to one number.
constexpr std::size_t row_taps = some_inputs * most_taps * panel;
using RowTaps = std::array<float, row_taps>;

// The factor of each tap in a row of the kernel, for place `column` of the transformed row.
struct RowFactors {
  std::array<float, most_taps> factors{};
  int first, count;  // the taps with a factor other than 0

  RowFactors(const CookToomScheme& scheme, std::int64_t column, bool rotated) : first(0), count(scheme.r) {
    int used = 0, last = 0;
    for (int w = 0; w < scheme.r; ++w) {
      const float factor = scheme.kernel_elements[column * scheme.r + (rotated ? scheme.r - 1 - w : w)];
      factors[static_cast<std::size_t>(w)] = factor;
      if (factor == 0) continue;
      ++used;
      last = w;
    }
    if (used > 1) return;  // a row with a single tap belongs to zero or to infinity
    first = last;
    count = 1;
    factors[0] = factors[static_cast<std::size_t>(last)];
  }
};

// For each row of the kernels of `count` inputs and each vector of outputs, calls f(tap, row). `tap` points to the
// first tap of the row whose factor is not 0, `row` to the row's place in `rows`.
template <class F>
void for_each_row(const Tiling& tiling, const TapPanels& taps, int first, float* tap, std::int64_t count,
                  std::int64_t outputs, RowTaps& rows, F f) {
  const std::int64_t height = tiling.rows.scheme->r, row_step = tiling.columns.scheme->r * taps.width();
  tap += first * taps.width();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t h = 0; h < height; ++h, tap += row_step) {
      float* const row = rows.data() + (i * height + (taps.is_rotated() ? height - 1 - h : h)) * outputs;
      for (std::int64_t o = 0; o < outputs; o += lanes) f(tap + o, row + o);
    }
}

template <class F>
void dispatch_taps(int taps, F f) {
  if (taps == 1) f(std::integral_constant<int, 1>{});
  else if (taps == 3) f(std::integral_constant<int, 3>{});
  else if (taps == 5) f(std::integral_constant<int, 5>{});
  else f(std::integral_constant<int, 7>{});
}

}  // namespace

// Reduces the taps of each row of the kernel to one number, at the column's place, and then transforms these numbers.
void PlaceMatrices::from_taps(const TapPanels& taps, std::int64_t input, std::int64_t column, std::int64_t p,
                              float* places) const {
  const std::int64_t columns = std::min(width(), outputs - p * width()), step = taps.width();
  const CookToomScheme& scheme = *tiling.rows.scheme;
  const RowFactors row_factors(*tiling.columns.scheme, column, taps.is_rotated());
  RowTaps rows;
  dispatch_taps(row_factors.count, [&](auto used) {
    const auto factors = row_factors.factors;
    for (std::int64_t c = 0; c < inputs; c += some_inputs) {
      const std::int64_t count = std::min(some_inputs, inputs - c);
      for_each_row(tiling, taps, row_factors.first, taps.at(p, input + c), count, columns, rows,
                   [&](const float* tap, float* row) {
                     Lanes sum{};
                     unroll<used>([&](auto w) { sum += factors[w] * load<lanes>(tap + w * step); });
                     store<lanes>(row, sum);
                   });
      scheme.kernel({rows.data(), columns, scheme.r * columns},
                    {places + p * panel_numbers() + c * width(), place_step(), 0, width()}, {count, 1, columns});
    }
  });
}

void PlaceMatrices::to_taps(const float* places, std::int64_t input, std::int64_t column, std::int64_t p,
                            const TapPanels& taps) const {
  const std::int64_t columns = std::min(width(), outputs - p * width()), step = taps.width();
  const CookToomScheme& scheme = *tiling.rows.scheme;
  const RowFactors row_factors(*tiling.columns.scheme, column, taps.is_rotated());
  RowTaps rows;
  dispatch_taps(row_factors.count, [&](auto used) {
    const auto factors = row_factors.factors;
    for (std::int64_t c = 0; c < inputs; c += some_inputs) {
      const std::int64_t count = std::min(some_inputs, inputs - c);
      scheme.kernel_grad({places + p * panel_numbers() + c * width(), place_step(), 0, width()},
                         {rows.data(), columns, scheme.r * columns}, {count, 1, columns}, {});
      for_each_row(tiling, taps, row_factors.first, taps.at(p, input + c), count, columns, rows,
                   [&](float* tap, const float* row) {
                     const Lanes sum = load<lanes>(row);
                     unroll<used>([&](auto w) {
                       float* const to = tap + w * step;
                       store<lanes>(to, load<lanes>(to) + factors[w] * sum);
                     });
                   });
    }
  });
}

void PlaceMatrices::multiply(const TilesInColumn& tiles, const float* places, bool add, const FromTiles& to,
                             std::int64_t column) const {
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
                         .y = to.products(column),
                         .y_panel = panel,
                         .y_row = outputs,
                         .y_next = to.place_step(),
                         .add = add});
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
