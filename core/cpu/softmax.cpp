// Softmax over dimension n of (before, n, after). If `after` is 1, the numbers of a row are adjacent in memory.
// Otherwise rows are adjacent, and several of them are computed side by side.
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/softmax_rows.h>

namespace tandem {

namespace {

using cpu::for_each_lanes;
using cpu::RowMath;

template <class C, class T>
void softmax_row(bool logarithm, const T* x, T* y, std::int64_t n) {
  using M = RowMath<C>;
  using V = typename M::V;
  constexpr int L = cpu::math_lanes<C>;
  // Whether y can store the exponentials temporarily. It can if storing to it does not round.
  constexpr bool keeps_exponentials = std::is_same_v<T, C>;
  const C highest = cpu::highest_of_row<C>(x, n);
  if (logarithm || !keeps_exponentials) {
    const C sum = cpu::sum_of_exponentials<C>(x, n, highest);
    const C log_sum = std::log(sum), share = 1 / sum;
    for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
      const V v = M::load_some(x + i, some) - highest;
      M::store_some(y + i, logarithm ? v - log_sum : M::exp(v) * share, some);
    });
    return;
  }
  V sum{};
  for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
    const V e = M::exp(M::load_some(x + i, some, -std::numeric_limits<C>::infinity()) - highest);
    M::store_some(y + i, e, some);
    sum += e;
  });
  const C share = 1 / M::sum(sum);
  for_each_lanes<L>(
      n, [&](std::int64_t i, std::int64_t some) { M::store_some(y + i, M::load_some(y + i, some) * share, some); });
}

// Computes softmax of `some` adjacent rows, whose elements are `after` apart.
template <class C, class T>
void softmax_columns(bool logarithm, const T* x, T* y, std::int64_t n, std::int64_t after, std::int64_t some) {
  using M = RowMath<C>;
  using V = typename M::V;
  const V highest = cpu::highest_of_columns<C>(x, n, after, some);
  const V sum = cpu::sum_of_exponentials_of_columns<C>(x, n, after, some, highest);
  const V share = C(1) / sum, log_sum = M::log(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    const V v = M::load_some(x + i * after, some) - highest;
    M::store_some(y + i * after, logarithm ? v - log_sum : M::exp(v) * share, some);
  }
}

// The gradient of softmax is y (grad - sum(y grad)), and that of log_softmax is grad - exp(y) sum(grad).
template <class V, class M>
V gradient(bool logarithm, V y, V grad, V sum) {
  return logarithm ? grad - M::exp(y) * sum : y * (grad - sum);
}

template <class C, class T>
void grad_of_row(bool logarithm, const T* y, const T* grad, T* result, std::int64_t n) {
  using M = RowMath<C>;
  using V = typename M::V;
  constexpr int L = cpu::math_lanes<C>;
  V sums{};
  for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
    const V g = M::load_some(grad + i, some);
    sums += logarithm ? g : g * M::load_some(y + i, some);
  });
  const V sum = V{} + M::sum(sums);
  for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
    const V out = M::load_some(y + i, some), g = M::load_some(grad + i, some);
    M::store_some(result + i, gradient<V, M>(logarithm, out, g, sum), some);
  });
}

template <class C, class T>
void grad_of_columns(bool logarithm, const T* y, const T* grad, T* result, std::int64_t n, std::int64_t after,
                     std::int64_t some) {
  using M = RowMath<C>;
  using V = typename M::V;
  V sum{};
  for (std::int64_t i = 0; i < n; ++i) {
    const V g = M::load_some(grad + i * after, some);
    sum += logarithm ? g : g * M::load_some(y + i * after, some);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const V out = M::load_some(y + i * after, some), g = M::load_some(grad + i * after, some);
    M::store_some(result + i * after, gradient<V, M>(logarithm, out, g, sum), some);
  }
}

}  // namespace

void CpuBackend::softmax(bool logarithm, const Array& x, const Array& y) {
  const cpu::Rows all(x);
  dispatch_floating(x.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    cpu::for_each_rows<C>(
        all, [&](std::int64_t, std::int64_t at) { softmax_row<C>(logarithm, in + at, out + at, all.n); },
        [&](std::int64_t, std::int64_t at, std::int64_t some) {
          softmax_columns<C>(logarithm, in + at, out + at, all.n, all.after, some);
        });
  });
}

void CpuBackend::softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) {
  const cpu::Rows all(y);
  dispatch_floating(y.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* out = static_cast<const T*>(y.raw());
    const T* grad = static_cast<const T*>(grad_y.raw());
    T* result = static_cast<T*>(grad_x.raw());
    cpu::for_each_rows<C>(
        all, [&](std::int64_t, std::int64_t at) { grad_of_row<C>(logarithm, out + at, grad + at, result + at, all.n); },
        [&](std::int64_t, std::int64_t at, std::int64_t some) {
          grad_of_columns<C>(logarithm, out + at, grad + at, result + at, all.n, all.after, some);
        });
  });
}

}  // namespace tandem
