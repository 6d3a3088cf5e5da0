// Computes softmax over dimension n of (before, n, after).
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/rows.cuh>

namespace tandem {

namespace {

using cuda::Rows;

template <class By, class C, class T>
__global__ void softmax_rows(Rows all, bool logarithm, const T* x, T* y) {
  const By by(all);
  for (std::int64_t r = by.row; r < all.count(); r += by.row_step) {
    const C highest = cuda::highest_of_row<C>(by, all, r, x);
    const C sum = cuda::sum_of_exponentials(by, all, r, x, highest);
    const C share = 1 / sum, log_sum = std::log(sum);
    for (std::int64_t i = by.first; i < all.n; i += by.step) {
      const std::int64_t at = by.offset(all, r, i);
      const C v = static_cast<C>(x[at]) - highest;
      y[at] = static_cast<T>(logarithm ? v - log_sum : std::exp(v) * share);
    }
  }
}

// The gradient of softmax is y (grad - sum(y grad)), and that of log_softmax is grad - exp(y) sum(grad).
template <class By, class C, class T>
__global__ void grad_rows(Rows all, bool logarithm, const T* y, const T* grad, T* result) {
  const By by(all);
  for (std::int64_t r = by.row; r < all.count(); r += by.row_step) {
    cuda::Total<C> sum;
    for (std::int64_t i = by.first; i < all.n; i += by.step) {
      const std::int64_t at = by.offset(all, r, i);
      const C g = static_cast<C>(grad[at]);
      sum.value += logarithm ? g : g * static_cast<C>(y[at]);
    }
    by.merge(sum);
    for (std::int64_t i = by.first; i < all.n; i += by.step) {
      const std::int64_t at = by.offset(all, r, i);
      const C out = static_cast<C>(y[at]), g = static_cast<C>(grad[at]);
      result[at] = static_cast<T>(logarithm ? g - std::exp(out) * sum.value : out * (g - sum.value));
    }
  }
}

}  // namespace

void CudaBackend::softmax(bool logarithm, const Array& x, const Array& y) {
  const Rows all(x);
  dispatch_floating(x.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(all.is_for_warps() ? softmax_rows<cuda::ByWarp, C, T> : softmax_rows<cuda::ByThread, C, T>,
                 all.blocks(), dim3(cuda::row_threads), all, logarithm, static_cast<const T*>(x.raw()),
                 static_cast<T*>(y.raw()));
  });
}

void CudaBackend::softmax_grad(bool logarithm, const Array& y, const Array& grad_y, const Array& grad_x) {
  const Rows all(y);
  dispatch_floating(y.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(all.is_for_warps() ? grad_rows<cuda::ByWarp, C, T> : grad_rows<cuda::ByThread, C, T>, all.blocks(),
                 dim3(cuda::row_threads), all, logarithm, static_cast<const T*>(y.raw()),
                 static_cast<const T*>(grad_y.raw()), static_cast<T*>(grad_x.raw()));
  });
}

}  // namespace tandem
