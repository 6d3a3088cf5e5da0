// Short convolutions along one axis with fewer multiplications: m outputs of a kernel of r taps need n = m + r - 1
// products instead of m * r. Cook and Toom found this for products of polynomials; Winograd, and Lavin and Gray ("Fast
// Algorithms for Convolutional Neural Networks", 2015), transposed it for neural networks. docs/fast_convolution.md has
// the derivation.
//
// The method uses three matrices. For n inputs d, r taps g and m outputs y,
//
//   y = A^T ((G g) * (B^T d)),   y[k] = sum over j of d[k + j] g[j],
//
// where * multiplies element by element. The matrices are derived from n points, at which the polynomials are
// evaluated: zero, pairs of points p and -p, and infinity if n is even. The errors of the sums depend on the points:
// good points are far from each other and near 1. If the squares of the points have few bits, A and B^T are exact in
// f32. G is rounded.
#pragma once

#include <tandem/core/cpu/conv/lanes.h>

#include <array>

namespace tandem::cpu {

// The positive points of the pairs, for n products. Among small fractions, they had the smallest RMS errors in two
// dimensions, as measured by tests/core/ops/conv2d_tiles_test.cpp.
template <int n>
inline constexpr std::array<double, 0> pairs_of{};
template <>
inline constexpr std::array<double, 1> pairs_of<4>{1};
template <>
inline constexpr std::array<double, 2> pairs_of<6>{3. / 4, 3. / 2};
template <>
inline constexpr std::array<double, 3> pairs_of<8>{1. / 2, 1, 2};
template <>
inline constexpr std::array<double, 4> pairs_of<9>{1. / 2, 7. / 8, 3. / 2, 4};

template <int m_, int r_>
struct CookToom {
  static constexpr int m = m_, r = r_, n = m + r - 1;
  static constexpr int pairs = static_cast<int>(pairs_of<n>.size());
  static_assert(pairs == (n - 1) / 2, "there are no points for this number of outputs and taps");

  // Row 0 belongs to zero, rows 2 i + 1 and 2 i + 2 to the points p and -p of pair i, and the last row to infinity if n
  // is even.
  static constexpr bool is_infinity(int row) { return row == 2 * pairs + 1; }
  static constexpr double point(int row) {
    return row == 0 ? 0 : (row % 2 == 1 ? 1 : -1) * pairs_of<n>[static_cast<std::size_t>((row - 1) / 2)];
  }
  static constexpr double power(double p, int k) { return k == 0 ? 1 : p * power(p, k - 1); }

  // Returns the product of (x^2 - q^2) over the positive points q other than `without`, as coefficients of 1, x^2, x^4,
  // ...
  static constexpr std::array<double, pairs + 1> product(double without) {
    std::array<double, pairs + 1> c{1};
    for (const double q : pairs_of<n>) {
      if (q == without) continue;
      for (std::size_t i = c.size() - 1; i > 0; --i) c[i] = c[i - 1] - q * q * c[i];
      c[0] *= -q * q;
    }
    return c;
  }

  // A (n x m): the powers of the points.
  struct Output {
    static constexpr int rows = n, columns = m, tile = m;
    static constexpr double at(int i, int k) { return is_infinity(i) ? k == m - 1 : power(point(i), k); }
  };

  // G (n x r): the powers of the points, divided by the product of (p - q) over all other points q.
  struct Kernel {
    static constexpr int rows = n, columns = r, tile = r;
    static constexpr double at(int i, int k) {
      if (is_infinity(i)) return k == r - 1;
      const double p = point(i), positive = p < 0 ? -p : p;
      double others = 0;
      const auto c = product(positive);
      for (int j = pairs; j >= 0; --j) others = others * p * p + c[static_cast<std::size_t>(j)];
      return power(p, k) / (p == 0 ? others : 2 * p * p * others);
    }
  };

  // B^T (n x n): the coefficients of the product of (x - q) over all other points q.
  struct Input {
    static constexpr int rows = n, columns = n, tile = m;
    static constexpr double at(int i, int k) {
      const double p = is_infinity(i) ? 0 : point(i);
      const auto c = product(p < 0 ? -p : p);
      const auto coefficient = [&](int power) {
        return power < 0 || power % 2 == 1 || power > 2 * pairs ? 0. : c[static_cast<std::size_t>(power / 2)];
      };
      if (is_infinity(i)) return coefficient(k - 1);       // x (x^2 - q^2) ...
      if (i == 0) return coefficient(k);                   // (x^2 - q^2) ...
      return coefficient(k - 2) + p * coefficient(k - 1);  // x (x + p) (x^2 - q^2) ...
    }
  };
};

// Returns whether rows i and i + 1 of the matrices belong to a pair of points. Their elements are then equal in even
// columns and opposite in odd columns, so the two rows share their sums.
template <class M>
constexpr bool begins_pair(int i) {
  return i % 2 == 1 && i + 1 < M::rows;
}
template <class M>
constexpr bool in_pair(int i) {
  return i > 0 && (i % 2 == 0 || begins_pair<M>(i));
}

// The elements of a matrix in memory, in row-major order.
template <class M>
inline constexpr auto elements = [] {
  std::array<float, static_cast<std::size_t>(M::rows * M::columns)> all{};
  for (int i = 0; i < M::rows; ++i)
    for (int k = 0; k < M::columns; ++k)
      all[static_cast<std::size_t>(i * M::columns + k)] = static_cast<float>(M::at(i, k));
  return all;
}();

// Row i of M, and column k of M without the second rows of pairs. These are the ranges of the sums.
template <class M, int i>
struct Row {
  static constexpr int length = M::columns;
  static constexpr double at(int k) { return M::at(i, k); }
  static constexpr int place(int k) { return i * M::columns + k; }
};
template <class M, int k>
struct Column {
  static constexpr int length = M::rows;
  static constexpr double at(int i) { return in_pair<M>(i) && !begins_pair<M>(i) ? 0 : M::at(i, k); }
  static constexpr int place(int i) { return i * M::columns + k; }
};

// Returns the sum of factor times number over the elements first, first + step, ... A factor of 0 costs nothing, and a
// factor of 1 no multiplication. `factors` points to elements<M>.
template <class Factors, int first, int step, class V>
[[gnu::always_inline]] inline V weighted_sum(const float* factors, const V* in) {
  constexpr auto next = [](int k) {
    while (k < Factors::length && Factors::at(k) == 0) k += step;
    return k;
  };
  constexpr int k = next(first);
  if constexpr (k >= Factors::length) {
    return V{};
  } else {
    constexpr bool plain = Factors::at(k) == 1, last = next(k + step) >= Factors::length;
    if constexpr (last) return plain ? in[k] : factors[Factors::place(k)] * in[k];
    else if constexpr (plain) return in[k] + weighted_sum<Factors, k + step, step>(factors, in);
    else return factors[Factors::place(k)] * in[k] + weighted_sum<Factors, k + step, step>(factors, in);
  }
}

// out = M in
template <class M, class V>
[[gnu::always_inline]] inline void multiply(const float* factors, const V* in, V* out) {
  unroll<M::rows>([&](auto row) __attribute__((always_inline)) {
    constexpr int i = row;
    if constexpr (begins_pair<M>(i)) {
      const V even = weighted_sum<Row<M, i>, 0, 2>(factors, in), odd = weighted_sum<Row<M, i>, 1, 2>(factors, in);
      out[i] = even + odd;
      out[i + 1] = even - odd;
    } else if constexpr (!in_pair<M>(i)) {
      out[i] = weighted_sum<Row<M, i>, 0, 1>(factors, in);
    }
  });
}

// out = M^T in
template <class M, class V>
[[gnu::always_inline]] inline void multiply_transposed(const float* factors, const V* in, V* out) {
  V sums[M::rows], differences[M::rows];
  unroll<M::rows>([&](auto row) __attribute__((always_inline)) {
    constexpr int i = row;
    if constexpr (begins_pair<M>(i)) {
      sums[i] = in[i] + in[i + 1];
      differences[i] = in[i] - in[i + 1];
    } else if constexpr (!in_pair<M>(i)) {
      sums[i] = differences[i] = in[i];
    }
  });
  unroll<M::columns>([&](auto column) __attribute__((always_inline)) {
    constexpr int k = column;
    out[k] = weighted_sum<Column<M, k>, 0, 1>(factors, k % 2 == 0 ? sums : differences);
  });
}

}  // namespace tandem::cpu
