// The rows of numbers that softmax and cross-entropy process: dimension n of a row-major (before, n, after).
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/vector_math.h>

#include <algorithm>

namespace tandem::cpu {

struct Rows {
  std::int64_t before, n, after;
  explicit Rows(const Array& x) : before(x.dim(0)), n(x.dim(1)), after(x.dim(2)) {}
  std::int64_t count() const { return before * after; }
};

// Calls row(r, offset) for each row if `after` is 1, that is, if the numbers of a row are adjacent. Otherwise calls
// columns(r, offset, some) for `some` neighbouring rows starting at row r. Threads share the calls.
template <class C, class Row, class Columns>
void for_each_rows(const Rows& all, Row row, Columns columns) {
  const std::int64_t elements = all.count() * all.n;
  if (all.after == 1) {
    // Short rows are processed in batches of about 1024 numbers, so a batch is worth a call.
    const std::int64_t batch = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, all.n));
    parallel_for((all.before + batch - 1) / batch, elements, [&](std::int64_t b) {
      for (std::int64_t r = b * batch; r < std::min(all.before, (b + 1) * batch); ++r) row(r, r * all.n);
    });
    return;
  }
  constexpr int L = math_lanes<C>;
  const std::int64_t blocks = (all.after + L - 1) / L;
  parallel_for(all.before * blocks, elements, [&](std::int64_t b) {
    const std::int64_t sample = b / blocks, first = b % blocks * L;
    columns(sample * all.after + first, sample * all.n * all.after + first,
            std::min<std::int64_t>(L, all.after - first));
  });
}

template <class C, class T>
C highest_of_row(const T* x, std::int64_t n) {
  using M = RowMath<C>;
  constexpr int L = math_lanes<C>;
  constexpr C least = -std::numeric_limits<C>::infinity();
  typename M::V highest = typename M::V{} + least;
  for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
    const auto v = M::load_some(x + i, some, least);
    highest = highest < v ? v : highest;
  });
  return M::highest(highest);
}

// Returns the sum of exp(x - highest).
template <class C, class T>
C sum_of_exponentials(const T* x, std::int64_t n, C highest) {
  using M = RowMath<C>;
  constexpr int L = math_lanes<C>;
  typename M::V sum{};
  for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
    // The lanes after the last number contain -infinity, whose exponential adds nothing.
    typename M::V e = M::exp(M::load_some(x + i, some, -std::numeric_limits<C>::infinity()) - highest);
    sum += e;
  });
  return M::sum(sum);
}

// Returns the highest number of each of `some` adjacent columns. A column has n elements, which are `after` apart.
template <class C, class T>
typename RowMath<C>::V highest_of_columns(const T* x, std::int64_t n, std::int64_t after, std::int64_t some) {
  using M = RowMath<C>;
  typename M::V highest = M::load_some(x, some);
  for (std::int64_t i = 1; i < n; ++i) {
    const auto v = M::load_some(x + i * after, some);
    highest = highest < v ? v : highest;
  }
  return highest;
}
template <class C, class T>
typename RowMath<C>::V sum_of_exponentials_of_columns(const T* x, std::int64_t n, std::int64_t after, std::int64_t some,
                                                      typename RowMath<C>::V highest) {
  using M = RowMath<C>;
  typename M::V sum{};
  for (std::int64_t i = 0; i < n; ++i) sum += M::exp(M::load_some(x + i * after, some) - highest);
  return sum;
}

}  // namespace tandem::cpu
