// exp, log and tanh of several lanes at a time, and operations on rows: the arithmetic M of core/formulas/lane_math.h
// for vectors. For float the results are within 2 units in the last place. Other types use the standard library for
// each number.
//
// The polynomials and the range reduction are those of S. Moshier, "Methods and Programs for Mathematical Functions",
// 1989.
#pragma once

#include <tandem/core/cpu/simd.h>

#include <cmath>
#include <limits>

namespace tandem::cpu {

// The number of lanes that a loop computes side by side. double, which is used for checking, is computed one number at
// a time.
template <class C>
inline constexpr int math_lanes = std::is_same_v<C, float> ? float_lanes : 1;

template <class Number, int L>
struct LaneMath {
  using C = Number;
  using V = std::conditional_t<L == 1, C, vec<C, L>>;

  static V exp(V x) {
    if constexpr (L == 1) return std::exp(x);
    else if constexpr (!std::is_same_v<C, float>) return each_lane<L>(x, [](C v) { return std::exp(v); });
    else {
      using I = vec<std::int32_t, L>;
      // A processor takes a hundred times as long if the result underflows, as e^x does for x below -104.
      const auto vanishes = x < -104.0f;
      x = vanishes ? V{} : smaller(V{} + 89.0f, x);
      // Adding 1.5 * 2^23 leaves the nearest integer in the lowest bits.
      const V shifted = x * 1.44269504088896341f + 12582912.0f;
      const V n = shifted - 12582912.0f;
      const V r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
      V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
      p = p * r + 8.3334519073e-3f;
      p = p * r + 4.1665795894e-2f;
      p = p * r + 1.6666665459e-1f;
      p = p * r + 5.0000001201e-1f;
      p = p * (r * r) + (r + 1.0f);
#ifdef __AVX512F__
      if constexpr (L == 16) return vanishes ? V{} : _mm512_scalef_ps(p, n);
#endif
      // Multiplies by 2^n in two halves, so subnormal results are correct too.
      const I whole = std::bit_cast<I>(shifted) - std::bit_cast<std::int32_t>(12582912.0f);
      const I half = whole >> 1;
      p = p * std::bit_cast<V>((half + 127) << 23) * std::bit_cast<V>((whole - half + 127) << 23);
      return vanishes ? V{} : p;
    }
  }

  static V log(V x) {
    if constexpr (L == 1) return std::log(x);
    else {
      using I = vec<std::int32_t, L>;
      const I tiny = x < std::numeric_limits<float>::min();
      const V scaled = tiny ? x * 0x1p23f : x;
      // The mantissa is in [sqrt(1/2), sqrt(2)).
      const I bits = std::bit_cast<I>(scaled) - 0x3f3504f3;
      const V e = __builtin_convertvector((bits >> 23) - (tiny & 23), V);
      const V m = std::bit_cast<V>((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
      const V square = m * m;
      V p = m * 7.0376836292e-2f - 1.1514610310e-1f;
      p = p * m + 1.1676998740e-1f;
      p = p * m - 1.2420140846e-1f;
      p = p * m + 1.4249322787e-1f;
      p = p * m - 1.6668057665e-1f;
      p = p * m + 2.0000714765e-1f;
      p = p * m - 2.4999993993e-1f;
      p = p * m + 3.3333331174e-1f;
      const V y = m * square * p + e * -2.12194440e-4f - 0.5f * square;
      V result = (m + y) + e * 0.693359375f;
      constexpr float infinity = std::numeric_limits<float>::infinity();
      result = x < infinity ? result : x;  // this also propagates NaN
      result = x == 0.0f ? V{} - infinity : result;
      return x < 0.0f ? V{} + std::numeric_limits<float>::quiet_NaN() : result;
    }
  }

  // Returns log(1 + x) for x in [-1, 1]. It computes the log of the rounded sum 1 + x, and corrects the rounding error
  // of the sum.
  static V log1p(V x) {
    if constexpr (L == 1) return std::log1p(x);
    else {
      const V sum = 1.0f + x;
      const V corrected = log(sum) * (x / (sum - 1.0f));
      return sum == 1.0f ? x : corrected;
    }
  }

  static V tanh(V x) {
    if constexpr (L == 1) return std::tanh(x);
    else if constexpr (!std::is_same_v<C, float>) return each_lane<L>(x, [](C v) { return std::tanh(v); });
    else {
      const V size = x < 0.0f ? -x : x, square = x * x;
      V p = square * -5.70498872745e-3f + 2.06390887954e-2f;
      p = p * square - 5.37397155531e-2f;
      p = p * square + 1.33314422036e-1f;
      p = p * square - 3.33332819422e-1f;
      const V near = x + x * square * p, far = 1.0f - 2.0f / (exp(x + x) + 1.0f);
      return size < 0.625f ? near : far;
    }
  }

  static C sum(V v) {
    return folded<L>(v, [](auto a, auto b) { return a + b; });
  }
  static C highest(V v) {
    return folded<L>(v, [](auto a, auto b) { return a < b ? b : a; });
  }

  template <class T>
  static V load(const T* from) {
    if constexpr (L == 1) return static_cast<C>(*from);
    else return cpu::load<L>(from);
  }
  template <class T>
  static void store(T* to, V v) {
    if constexpr (L == 1) *to = static_cast<T>(v);
    else cpu::store<L>(to, v);
  }
  // Loads the first n lanes, 0 < n <= L. The other lanes are `rest`.
  template <class T>
  static V load_some(const T* from, std::int64_t n, C rest = 0) {
    if constexpr (L == 1) return load(from);
    else return n == L ? load(from) : cpu::load_some<L>(from, n, rest);
  }
  template <class T>
  static void store_some(T* to, V v, std::int64_t n) {
    if (n == L) return store(to, v);
    if constexpr (L > 1) cpu::store_some<L>(to, v, n);
  }
};

template <class C>
using RowMath = LaneMath<C, math_lanes<C>>;

// Iterates over `count` numbers and calls f(i, n) for the n numbers starting at i. n is the number of lanes, or less at
// the end.
template <int L, class F>
inline void for_each_lanes(std::int64_t count, F f) {
  std::int64_t i = 0;
  for (; i + L <= count; i += L) f(i, std::int64_t{L});
  if (i < count) f(i, count - i);
}

}  // namespace tandem::cpu
