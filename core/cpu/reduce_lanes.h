// What a reduction does with a few neighbours at once: rows and columns of numbers become one number each, in the type of
// the numbers, for blocks so small that this loses nothing which matters. core/cpu/reduce_blocks.h makes states of them.
#pragma once

#include <tandem/core/cpu/simd.h>
#include <tandem/core/reductions.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

// How numbers of type T are loaded: floats in the type computed in, integers in the width of a mask.
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

template <int L, class V, class F>
V each_lane(V v, F f) {
  for (int i = 0; i < L; ++i) v[i] = f(v[i]);
  return v;
}

// e^x for x <= 0, to two units in the last place; 0 below the smallest normal number.
template <int L, class V>
V exp_of_negative(V x) {
  if constexpr (sizeof(x[0]) == 8) {
    return each_lane<L>(x, [](double v) { return std::exp(v); });
  } else {
    constexpr float log2_e = 1.44269504f, magic = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
    const V shifted = x * log2_e + magic, n = shifted - magic;
    const V r = x - n * 0.693145752f - n * 1.42860677e-6f;
    V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.f;
    const auto exponent =
        (std::bit_cast<vec<std::int32_t, L>>(shifted) - std::bit_cast<std::int32_t>(magic) + 127) << 23;
    return x < -87.f ? V{} : p * std::bit_cast<V>(exponent);
  }
}

// Lanes: start() is the beginning of a total, add(total, x, j) takes in the numbers of columns j, j + 1, ..., join puts totals
// together.
template <class T>
struct SumLanes {
  using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, compute_t<T>>;
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
    if constexpr (largest) return (b > a) | (b != b) ? b : a;
    else return (b < a) | (b != b) ? b : a;
  }
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    if constexpr (of_magnitudes) return join(total, x < Total(0) ? -x : x);
    else return join(total, x);
  }
};

// Sums of |x|^p.
template <class T, int p>
struct PowerLanes : SumLanes<T> {
  double exponent = p;  // where p is 0
  template <int L, class V>
  V add(V total, V x, std::int64_t) const {
    using C = typename SumLanes<T>::Total;
    if constexpr (p == 2) return total + x * x;
    else if constexpr (p == 1) return total + (x < C(0) ? -x : x);
    else
      return total + each_lane<L>(x, [this](C v) { return std::pow(std::abs(v), static_cast<C>(exponent)); });
  }
};

template <class T>
struct NonzeroLanes {
  using Load = lane_t<T>;
  using Total = mask_t<Load>;
  static Total start() { return 0; }
  template <int L, class V, class X>
  V add(V total, X x, std::int64_t) const {
    return total - (x != Load(0));  // a mask is -1
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
};

// Numbers that differ by column, or are the same for all.
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

// Sums of x - shift, of (x - shift - mean)^2 and of exp(x - shift).
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
    return total + exp_of_negative<L>(x - shift.template at<L>(j));
  }
};

template <class Lanes, int L, class V>
typename Lanes::Total join_lanes(V v) {
  if constexpr (L == 1) {
    return v[0];
  } else {
    using Half = vec<typename Lanes::Total, L / 2>;
    const auto halves = std::bit_cast<std::array<Half, 2>>(v);
    return join_lanes<Lanes, L / 2>(Lanes::join(halves[0], halves[1]));
  }
}

template <class Lanes>
inline constexpr int lanes_of = static_cast<int>(64 / sizeof(typename Lanes::Total));

// The total of a row of n numbers.
template <class Lanes, class T>
typename Lanes::Total total_of_row(const Lanes& lanes, const T* x, std::int64_t n, std::int64_t stride) {
  using Total = typename Lanes::Total;
  using Load = typename Lanes::Load;
  constexpr int L = lanes_of<Lanes>;
  Total total = Lanes::start();
  std::int64_t i = 0;
  if (stride == 1 && n >= L) {
    auto sums = same<L>(total);
    if (n >= 4 * L) {
      auto a = sums, b = sums, c = sums;
      for (; i + 4 * L <= n; i += 4 * L) {
        sums = lanes.template add<L>(sums, load_lanes<Load, L>(x + i), 0);
        a = lanes.template add<L>(a, load_lanes<Load, L>(x + i + L), 0);
        b = lanes.template add<L>(b, load_lanes<Load, L>(x + i + 2 * L), 0);
        c = lanes.template add<L>(c, load_lanes<Load, L>(x + i + 3 * L), 0);
      }
      sums = Lanes::join(Lanes::join(sums, a), Lanes::join(b, c));
    }
    for (; i + L <= n; i += L) sums = lanes.template add<L>(sums, load_lanes<Load, L>(x + i), 0);
    total = join_lanes<Lanes, L>(sums);
  }
  auto rest = same<1>(total);
  for (; i < n; ++i) rest = lanes.template add<1>(rest, load_lanes<Load, 1>(x + i * stride), 0);
  return rest[0];
}

// The totals of `columns` columns of a few rows. Goes through memory row by row, eight rows side by side.
template <class Lanes, class T>
void totals_of_columns(const Lanes& lanes, const T* x, std::int64_t columns, std::int64_t rows,
                       std::int64_t row_stride, typename Lanes::Total* totals) {
  using Total = typename Lanes::Total;
  using Load = typename Lanes::Load;
  std::fill_n(totals, columns, Lanes::start());
  const auto take = [&]<int L, int group>(const T* row, std::int64_t j) {
    auto total = load_raw<Total, L>(totals + j);
    for (int r = 0; r < group; ++r)
      total = lanes.template add<L>(total, load_lanes<Load, L>(row + r * row_stride + j), j);
    std::memcpy(totals + j, &total, sizeof total);
  };
  const auto take_rows = [&]<int group>(const T* row) {
    constexpr int L = lanes_of<Lanes>;
    std::int64_t j = 0;
    for (; j + L <= columns; j += L) take.template operator()<L, group>(row, j);
    for (; j < columns; ++j) take.template operator()<1, group>(row, j);
  };
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) take_rows.template operator()<8>(x + r * row_stride);
  for (; r < rows; ++r) take_rows.template operator()<1>(x + r * row_stride);
}

}  // namespace tandem::cpu
