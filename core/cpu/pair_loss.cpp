#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/vector_math.h>

#include <algorithm>

namespace tandem {

namespace {

using cpu::for_each_lanes;
using cpu::RowMath;

// The number of values in one sum of the type used for computation. The sums of pieces are added in double.
constexpr std::int64_t piece = 8192;

// Calls f(p, first, n) for each piece p of n numbers starting at `first`; `count` is the total. Threads share the
// pieces.
template <class F>
void for_each_piece(std::int64_t count, F f) {
  cpu::parallel_for((count + piece - 1) / piece, count,
                    [&](std::int64_t p) { f(p, p * piece, std::min(piece, count - p * piece)); });
}

template <class T, class F>
double sum_of(const F& loss, const T* x, const T* t, std::int64_t count) {
  using M = RowMath<compute_t<T>>;
  using V = typename M::V;
  constexpr int L = cpu::math_lanes<compute_t<T>>;
  const Array partial = Array::empty({(count + piece - 1) / piece}, DType::f64);
  double* sums = partial.data<double>();
  for_each_piece(count, [&](std::int64_t p, std::int64_t first, std::int64_t n) {
    V sum[4] = {};  // several sums, so no addition waits for the previous one
    std::int64_t i = first;
    for (; i + 4 * L <= first + n; i += 4 * L)
      for (int u = 0; u < 4; ++u) sum[u] += loss.template value<M>(M::load(x + i + u * L), M::load(t + i + u * L));
    double rest = 0;
    for (; i + L <= first + n; i += L) sum[0] += loss.template value<M>(M::load(x + i), M::load(t + i));
    using One = ScalarMath<compute_t<T>>;
    using C = compute_t<T>;
    for (; i < first + n; ++i) rest += loss.template value<One>(static_cast<C>(x[i]), static_cast<C>(t[i]));
    sums[p] = M::sum((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
  });
  double total = 0;
  for (std::int64_t p = 0; p < partial.numel(); ++p) total += sums[p];
  return total;
}

}  // namespace

void CpuBackend::pair_loss(const PairLoss& loss, const Array& x, const Array& target, double scale, const Array& y) {
  const std::int64_t count = x.numel();
  const bool is_reduced = y.shape() != x.shape() || x.ndim() == 0;
  dispatch_floating(x.dtype(), "loss", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    using M = RowMath<C>;
    const T* in = static_cast<const T*>(x.raw());
    const T* wanted = static_cast<const T*>(target.raw());
    T* out = static_cast<T*>(y.raw());
    std::visit(
        [&](const auto& f) {
          if (is_reduced) {
            *out = static_cast<T>(static_cast<C>(sum_of(f, in, wanted, count) * scale));
            return;
          }
          for_each_piece(count, [&](std::int64_t, std::int64_t first, std::int64_t n) {
            for_each_lanes<cpu::math_lanes<C>>(n, [&](std::int64_t i, std::int64_t some) {
              const auto a = M::load_some(in + first + i, some), b = M::load_some(wanted + first + i, some);
              M::store_some(out + first + i, f.template value<M>(a, b), some);
            });
          });
        },
        loss);
  });
}

void CpuBackend::pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target,
                                const Array& grad_y, double scale, const Array& grad) {
  const std::int64_t count = x.numel();
  const bool is_reduced = grad_y.shape() != x.shape() || x.ndim() == 0;
  dispatch_floating(x.dtype(), "loss", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    using M = RowMath<C>;
    using V = typename M::V;
    const T* in = static_cast<const T*>(x.raw());
    const T* wanted = static_cast<const T*>(target.raw());
    const T* given = static_cast<const T*>(grad_y.raw());
    T* out = static_cast<T*>(grad.raw());
    const C common = is_reduced ? static_cast<C>(static_cast<double>(static_cast<C>(*given)) * scale) : C(0);
    std::visit(
        [&](const auto& f) {
          for_each_piece(count, [&](std::int64_t, std::int64_t first, std::int64_t n) {
            for_each_lanes<cpu::math_lanes<C>>(n, [&](std::int64_t i, std::int64_t some) {
              const V a = M::load_some(in + first + i, some), b = M::load_some(wanted + first + i, some);
              const V slope = operand == 0 ? f.template derivative_a<M>(a, b) : f.template derivative_b<M>(a, b);
              const V g = is_reduced ? V{} + common : M::load_some(given + first + i, some);
              M::store_some(out + first + i, V(slope * g), some);
            });
          });
        },
        loss);
  });
}

}  // namespace tandem
