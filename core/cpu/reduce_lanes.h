// Adds up a few neighbouring numbers of a reduction at once, in vectors. Each row or column of a block becomes one
// total, in the type of the numbers. The blocks are so small that the totals lose no digits that matter.
// core/cpu/reduce_blocks.h puts the totals into states.
#pragma once

#include <tandem/core/cpu/vector_math.h>
#include <tandem/core/formulas/reductions.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

// The type as which numbers of type T are loaded: floats in the type that is computed in, integers in the width of a
// mask.
template <class T>
using lane_t = std::conditional_t<std::is_integral_v<T>, mask_t<T>, compute_t<T>>;

template <class Lane, int L, class T>
vec<Lane, L> load_lanes(const T* from) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, Lane>)
    return __builtin_convertvector(load_raw<T, L>(from), vec<Lane, L>);
  else return load<L>(from);
}

template <int L, class Lane>
vec<Lane, L> same(Lane value) {
  return vec<Lane, L>{} + value;
}

// A struct of lanes says how totals are formed. start() is an empty total. add(total, x, j) adds the numbers x of the
// columns j, j + 1, ... to a total, lane by lane. join(a, b) makes one total of two.
template <class T>
struct SumLanes {
  // Integers wrap around, so sums of unsigned ones have the same bits as sums of signed ones.
  using Total = std::conditional_t<std::is_integral_v<T>, std::uint64_t, compute_t<T>>;
  using Load = Total;
  static Total start() { return 0; }
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    return total + x;
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
};

template <class T>
struct ProductLanes : SumLanes<T> {
  using typename SumLanes<T>::Total;
  static Total start() { return 1; }
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    return total * x;
  }
  template <class V>
  static V join(V a, V b) {
    return a * b;
  }
};

template <class T, bool largest, bool of_magnitudes>
struct ExtremeLanes {
  using Total = lane_t<T>;
  using Load = Total;
  static Total start() {
    using Limits = std::numeric_limits<Total>;
    if constexpr (Limits::has_infinity) return largest ? -Limits::infinity() : Limits::infinity();
    else return largest ? Limits::lowest() : Limits::max();
  }
  template <class V>
  static V join(V a, V b) {
    return b != b ? b : largest ? larger(b, a) : smaller(b, a);
  }
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    if constexpr (of_magnitudes) return join(total, x < Total(0) ? -x : x);
    else return join(total, x);
  }
};

// Sums of |x|^p. With p = 0 the exponent is the member's.
template <class T, int p>
struct PowerLanes : SumLanes<T> {
  double exponent = p;  // used where p is 0
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    using C = typename SumLanes<T>::Total;
    if constexpr (p == 2) return total + x * x;
    else if constexpr (p == 1) return total + (x < C(0) ? -x : x);
    else return total + each_lane<L>(x, [this](C v) { return std::pow(std::abs(v), static_cast<C>(exponent)); });
  }
};

template <class T>
struct NonzeroLanes {
  using Load = lane_t<T>;
  using Total = mask_t<Load>;
  static Total start() { return 0; }
  template <int L, class V, class X>
  V add(V total, X x, std::int64_t) const {
    return total - (x != Load(0));  // a lane of a mask is -1 where the comparison is true
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
};

// A number for each column (PerColumn), or one number for all of them (ForAll).
template <class C>
struct PerColumn {
  const C* values;
  template <int L>
  vec<C, L> at(std::int64_t j) const {
    return load_raw<C, L>(values + j);
  }
};
template <class C>
struct ForAll {
  C value;
  template <int L>
  vec<C, L> at(std::int64_t) const {
    return same<L>(value);
  }
};

// Three sums: of x - shift (DeviationLanes), of (x - shift - mean)^2 (SquareLanes) and of exp(x - shift) (ExpLanes).
template <class T, class Shift>
struct DeviationLanes : SumLanes<T> {
  Shift shift;
  explicit DeviationLanes(Shift s) : shift(s) {}
  template <int L, class V>
  V add(V total, V x, std::int64_t j) const {
    return total + (x - shift.template at<L>(j));
  }
};
template <class T, class Shift>
struct SquareLanes : SumLanes<T> {
  Shift shift, mean;
  SquareLanes(Shift s, Shift m) : shift(s), mean(m) {}
  template <int L, class V>
  V add(V total, V x, std::int64_t j) const {
    const V d = x - shift.template at<L>(j) - mean.template at<L>(j);
    return total + d * d;
  }
};
template <class T, class Shift>
struct ExpLanes : SumLanes<T> {
  Shift shift;
  explicit ExpLanes(Shift s) : shift(s) {}
  template <int L, class V>
  V add(V total, V x, std::int64_t j) const {
    const V power = x - shift.template at<L>(j);
    using C = typename SumLanes<T>::Total;
    if constexpr (L == 1) return total + std::exp(power[0]);
    else return total + LaneMath<C, L>::exp(power);
  }
};

template <class Lanes>
inline constexpr int lanes_of = static_cast<int>(register_bytes / sizeof(typename Lanes::Total));
template <class Lanes>
using totals_t = vec<typename Lanes::Total, lanes_of<Lanes>>;

// Joins neighbouring lanes in pairs. The pairs of a are the first half of the result, and those of b the second.
template <class Lanes>
totals_t<Lanes> join_neighbours(totals_t<Lanes> a, totals_t<Lanes> b) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return Lanes::join(__builtin_shufflevector(a, b, 2 * i...), __builtin_shufflevector(a, b, (2 * i + 1)...));
  }
  (std::make_integer_sequence<int, lanes_of<Lanes>>{});
}
// Turns `count` vectors into one, each lane of which joins `count` neighbouring lanes.
template <class Lanes, int count>
totals_t<Lanes> join_all(const totals_t<Lanes>* each) {
  if constexpr (count == 1) return *each;
  else return join_neighbours<Lanes>(join_all<Lanes, count / 2>(each), join_all<Lanes, count / 2>(each + count / 2));
}
template <class Lanes>
typename Lanes::Total join_lanes(totals_t<Lanes> v) {
  for (int width = lanes_of<Lanes>; width > 1; width /= 2) v = join_neighbours<Lanes>(v, v);
  return v[0];
}

// The numbers of a row as a vector of totals. There are n numbers, at least a whole vector of them.
template <class Lanes, class T>
totals_t<Lanes> totals_along_row(const Lanes& lanes, const T* x, std::int64_t n) {
  using Load = typename Lanes::Load;
  constexpr int L = lanes_of<Lanes>, wide = 8;  // so many additions under way hide the time that one of them takes
  totals_t<Lanes> total = same<L>(Lanes::start());
  std::int64_t i = 0;
  if (n >= wide * L) {
    totals_t<Lanes> totals[wide];
    for (auto& each : totals) each = total;
    for (; i + wide * L <= n; i += wide * L)
      for (int k = 0; k < wide; ++k)
        totals[k] = lanes.template add<L>(totals[k], load_lanes<Load, L>(x + i + k * L), 0);
    for (int half = wide / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) totals[k] = Lanes::join(totals[k], totals[k + half]);
    total = totals[0];
  }
  for (; i + L <= n; i += L) total = lanes.template add<L>(total, load_lanes<Load, L>(x + i), 0);
  if (i < n) {  // the last L numbers, some of which have been added already
    using Index = mask_t<typename Lanes::Total>;
    vec<Index, L> lane;
    for (int k = 0; k < L; ++k) lane[k] = k;
    const auto with = lanes.template add<L>(total, load_lanes<Load, L>(x + n - L), 0);
    total = lane >= static_cast<Index>(L - (n - i)) ? with : total;
  }
  return total;
}

// The total of a row of n numbers.
template <class Lanes, class T>
typename Lanes::Total total_of_row(const Lanes& lanes, const T* x, std::int64_t n, std::int64_t stride) {
  if (stride == 1 && n >= lanes_of<Lanes>) return join_lanes<Lanes>(totals_along_row(lanes, x, n));
  auto total = same<1>(Lanes::start());
  for (std::int64_t i = 0; i < n; ++i)
    total = lanes.template add<1>(total, load_lanes<typename Lanes::Load, 1>(x + i * stride), 0);
  return total[0];
}

// The totals of as many rows as a vector has lanes. The rows begin `row_stride` apart.
template <class Lanes, class T>
totals_t<Lanes> totals_of_rows(const Lanes& lanes, const T* x, std::int64_t n, std::int64_t row_stride) {
  using Load = typename Lanes::Load;
  constexpr int L = lanes_of<Lanes>;
  totals_t<Lanes> each[L];
  if (n >= L) {
    for (int r = 0; r < L; ++r) each[r] = totals_along_row(lanes, x + r * row_stride, n);
    return join_all<Lanes, L>(each);
  }
  const auto start = same<L>(Lanes::start());
  const auto dense = [&]<int count>() {
    for (int k = 0; k < count; ++k) each[k] = lanes.template add<L>(start, load_lanes<Load, L>(x + k * L), 0);
    return join_all<Lanes, count>(each);
  };
  if (row_stride == n) {
    if (n == 1) return dense.template operator()<1>();
    if (n == 2) return dense.template operator()<2>();
    if (n == 4) return dense.template operator()<4>();
    if constexpr (L > 8)
      if (n == 8) return dense.template operator()<8>();
  }
  auto total = start;  // one lane for each row
  for (std::int64_t i = 0; i < n; ++i) {
    vec<Load, L> v;
    for (int r = 0; r < L; ++r) v[r] = static_cast<Load>(x[r * row_stride + i]);
    total = lanes.template add<L>(total, v, 0);
  }
  return total;
}

// The totals of `columns` columns of a few rows. The walk goes through memory row by row, with eight rows side by side.
template <class Lanes, class T>
void totals_of_columns(const Lanes& lanes, const T* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride,
                       typename Lanes::Total* totals) {
  using Total = typename Lanes::Total;
  using Load = typename Lanes::Load;
  std::fill_n(totals, columns, Lanes::start());
  const auto take = [&]<int L, int wide, int group>(const T* row, std::int64_t j) {
    vec<Total, L> total[wide];
    for (int k = 0; k < wide; ++k) total[k] = load_raw<Total, L>(totals + j + k * L);
    for (int r = 0; r < group; ++r)
      for (int k = 0; k < wide; ++k)
        total[k] = lanes.template add<L>(total[k], load_lanes<Load, L>(row + r * row_stride + j + k * L), j + k * L);
    for (int k = 0; k < wide; ++k) std::memcpy(totals + j + k * L, &total[k], sizeof total[k]);
  };
  const auto take_rows = [&]<int group>(const T* row) {
    constexpr int L = lanes_of<Lanes>;
    std::int64_t j = 0;
    for (; j + 4 * L <= columns; j += 4 * L) take.template operator()<L, 4, group>(row, j);
    for (; j + L <= columns; j += L) take.template operator()<L, 1, group>(row, j);
    for (; j < columns; ++j) take.template operator()<1, 1, group>(row, j);
  };
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) take_rows.template operator()<8>(x + r * row_stride);
  for (; r < rows; ++r) take_rows.template operator()<1>(x + r * row_stride);
}

}  // namespace tandem::cpu
