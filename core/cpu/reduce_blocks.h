// Adds a block of numbers to the states of a reduction. A block is a piece of a row, or some rows of columns. It is so
// small that it stays in the nearest cache while two passes go over it, and that its totals are exact enough in the
// type of the numbers.
#pragma once

#include <tandem/core/cpu/reduce_lanes.h>

namespace tandem::cpu {

inline constexpr std::int64_t row_block = 4096;    // numbers of a row: 16 KiB in f32
inline constexpr std::int64_t column_block = 512;  // columns of a block of columns
inline constexpr std::int64_t column_rows = 64;    // and its rows

// For operations whose total of a block is one number: `take` puts that number into a state.
template <class Lanes, class T, class State, class Take>
void lanes_row(const Lanes& lanes, const T* x, std::int64_t n, std::int64_t stride, State& state, Take take) {
  take(state, total_of_row(lanes, x, n, stride));
}
template <class Lanes, class T, class State, class Take>
void lanes_columns(const Lanes& lanes, const T* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride,
                   State* states, Take take) {
  typename Lanes::Total totals[column_block];
  totals_of_columns(lanes, x, columns, rows, row_stride, totals);
  for (std::int64_t j = 0; j < columns; ++j) take(states[j], totals[j]);
}

// Calls f(lanes, take) if the total of a block is one number, and returns whether it is. `lanes` says how numbers are
// added to a total (core/cpu/reduce_lanes.h), and `take` puts a total into a state.
template <class T, class Op, class F>
bool with_lanes(const Op&, const F&) {
  return false;
}
template <class T, class F>
bool with_lanes(const reductions::Sum&, const F& f) {
  f(SumLanes<T>{}, [](auto& state, auto total) { state.total += total; });
  return true;
}
template <class T, bool largest, bool of_magnitudes, class F>
bool with_lanes(const reductions::Extreme<largest, of_magnitudes>&, const F& f) {
  f(ExtremeLanes<T, largest, of_magnitudes>{}, [](auto& state, auto total) {
    state.merge({static_cast<compute_t<T>>(total), 0});
  });
  return true;
}
template <class T, class F>
bool with_lanes(const reductions::Norm& op, const F& f) {
  const auto take = [](auto& state, auto total) { state.total += total; };
  if (op.p == 2) f(PowerLanes<T, 2>{}, take);
  else if (op.p == 1) f(PowerLanes<T, 1>{}, take);
  else f(PowerLanes<T, 0>{{}, op.p}, take);
  return true;
}
template <class T, class F>
bool with_lanes(const reductions::CountNonzero&, const F& f) {
  f(NonzeroLanes<T>{}, [](auto& state, auto total) { state.total += total; });
  return true;
}
template <class T, class F>
bool with_lanes(const reductions::Prod& op, const F& f) {
  if (!op.besides_the_zero) f(ProductLanes<T>{}, [](auto& state, auto total) { state.total *= total; });
  return !op.besides_the_zero;
}

template <class Op, class T, class State>
void reduce_row(const Op& op, const T* x, std::int64_t n, std::int64_t stride, State& state) {
  if (with_lanes<T>(op, [&](const auto& lanes, auto take) { lanes_row(lanes, x, n, stride, state, take); })) return;
  for (std::int64_t i = 0; i < n; ++i) reductions::add(op, state, x[i * stride], 0);
}
template <class Op, class T, class State>
void reduce_columns(const Op& op, const T* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride,
                    State* states) {
  const auto by_lanes = [&](const auto& lanes, auto take) {
    lanes_columns(lanes, x, columns, rows, row_stride, states, take);
  };
  if (with_lanes<T>(op, by_lanes)) return;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < columns; ++j) reductions::add(op, states[j], x[r * row_stride + j], 0);
}

// Two passes over the block: the first computes the mean, and the second sums the squares of the deviations from it.
// Both subtract the first number from all numbers, so that a mean far from zero costs no digits.
template <class T>
void reduce_row(const reductions::Var&, const T* x, std::int64_t n, std::int64_t stride, Spread<T>& state) {
  using C = compute_t<T>;
  using Shift = ForAll<C>;
  const C first = static_cast<C>(x[0]);
  const C mean = total_of_row(DeviationLanes<T, Shift>({first}), x, n, stride) / static_cast<C>(n);
  const double m2 = total_of_row(SquareLanes<T, Shift>({first}, {mean}), x, n, stride);
  state.merge({static_cast<double>(n), static_cast<double>(first) + static_cast<double>(mean), m2});
}
template <class T>
void reduce_columns(const reductions::Var&, const T* x, std::int64_t columns, std::int64_t rows,
                    std::int64_t row_stride, Spread<T>* states) {
  using C = compute_t<T>;
  using Shift = PerColumn<C>;
  C first[column_block], mean[column_block], m2[column_block];
  for (std::int64_t j = 0; j < columns; ++j) first[j] = static_cast<C>(x[j]);
  totals_of_columns(DeviationLanes<T, Shift>({first}), x, columns, rows, row_stride, mean);
  for (std::int64_t j = 0; j < columns; ++j) mean[j] /= static_cast<C>(rows);
  totals_of_columns(SquareLanes<T, Shift>({first}, {mean}), x, columns, rows, row_stride, m2);
  const double n = static_cast<double>(rows), all = states[0].count + n, share = n / all;
  for (std::int64_t j = 0; j < columns; ++j) {
    Spread<T>& s = states[j];
    const double delta = static_cast<double>(first[j]) + static_cast<double>(mean[j]) - s.mean;
    s.m2 += static_cast<double>(m2[j]) + delta * delta * s.count * share;
    s.mean += delta * share;
    s.count = all;
  }
}

template <class T>
void reduce_row(const reductions::LogSumExp&, const T* x, std::int64_t n, std::int64_t stride, ExpSum<T>& state) {
  using C = compute_t<T>;
  const C highest = total_of_row(ExtremeLanes<T, true, false>{}, x, n, stride);
  // If the highest number is infinite or NaN, it does not matter how often it occurs.
  if (highest - highest != C(0)) return state.merge({highest, highest < C(0) ? 0.0 : 1.0});
  state.merge({highest, static_cast<double>(total_of_row(ExpLanes<T, ForAll<C>>({highest}), x, n, stride))});
}
template <class T>
void reduce_columns(const reductions::LogSumExp&, const T* x, std::int64_t columns, std::int64_t rows,
                    std::int64_t row_stride, ExpSum<T>* states) {
  using C = compute_t<T>;
  C highest[column_block], sums[column_block];
  totals_of_columns(ExtremeLanes<T, true, false>{}, x, columns, rows, row_stride, highest);
  totals_of_columns(ExpLanes<T, PerColumn<C>>({highest}), x, columns, rows, row_stride, sums);
  for (std::int64_t j = 0; j < columns; ++j) {
    const bool finite = highest[j] - highest[j] == C(0);
    states[j].merge({highest[j], finite ? static_cast<double>(sums[j]) : highest[j] < C(0) ? 0.0 : 1.0});
  }
}

// Reduces `count` rows of neighbouring numbers, each into its own state. The rows begin `row_stride` apart.
template <class Op, class T, class State>
void reduce_rows(const Op& op, const T* x, std::int64_t count, std::int64_t n, std::int64_t row_stride, State* states) {
  const auto by_lanes = [&](const auto& lanes, auto take) {
    constexpr int L = lanes_of<std::decay_t<decltype(lanes)>>;
    std::int64_t r = 0;
    for (; r + L <= count; r += L) {
      const auto totals = totals_of_rows(lanes, x + r * row_stride, n, row_stride);
      for (int i = 0; i < L; ++i) take(states[r + i], totals[i]);
    }
    for (; r < count; ++r) take(states[r], total_of_row(lanes, x + r * row_stride, n, 1));
  };
  if (with_lanes<T>(op, by_lanes)) return;
  for (std::int64_t r = 0; r < count; ++r) reduce_row(op, x + r * row_stride, n, 1, states[r]);
}

}  // namespace tandem::cpu
