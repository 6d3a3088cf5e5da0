#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/index_fault.h>
#include <tandem/core/softmax_gradients.h>

#include <algorithm>
#include <cmath>

namespace tandem {

namespace {

// log(sum(exp(x))) of a row, without overflow.
template <class C, class T>
C log_sum_exp(const T* x, std::int64_t n) {
  C highest = x[0];
  for (std::int64_t i = 1; i < n; ++i) highest = std::max(highest, static_cast<C>(x[i]));
  C sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<C>(x[i]) - highest);
  return highest + std::log(sum);
}

}  // namespace

void CpuBackend::log_softmax(const Array& x, const Array& y) {
  const std::int64_t n = x.dim(-1), rows = x.numel() / n;
  dispatch_floating(x.dtype(), "log_softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    cpu::parallel_for(rows, x.numel(), [&](std::int64_t r) {
      const C total = log_sum_exp<C>(in + r * n, n);
      for (std::int64_t i = 0; i < n; ++i)
        out[r * n + i] = static_cast<T>(static_cast<C>(in[r * n + i]) - total);
    });
  });
}

void CpuBackend::log_softmax_grad(const Array& y, const Array& grad_y, const Array& grad_x) {
  const std::int64_t n = y.dim(-1), rows = y.numel() / n;
  dispatch_floating(y.dtype(), "log_softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* out = static_cast<const T*>(y.raw());
    const T* grad = static_cast<const T*>(grad_y.raw());
    T* result = static_cast<T*>(grad_x.raw());
    cpu::parallel_for(rows, y.numel(), [&](std::int64_t r) {
      C sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += static_cast<C>(grad[r * n + i]);
      for (std::int64_t i = 0; i < n; ++i)
        result[r * n + i] = static_cast<T>(
            log_softmax_gradient(static_cast<C>(out[r * n + i]), static_cast<C>(grad[r * n + i]), sum));
    });
  });
}

std::int64_t CpuBackend::cross_entropy(const Array& logits, const Array& target, const Array& loss,
                                       const Array& probabilities) {
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const std::int64_t* wanted = target.data<std::int64_t>();
  if (const auto bad_row = first_outside(wanted, rows, classes); bad_row >= 0) return bad_row;
  dispatch_floating(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(logits.raw());
    C* p = probabilities.data<C>();
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const C total = log_sum_exp<C>(x + r * classes, classes);
      for (std::int64_t i = 0; i < classes; ++i)
        p[r * classes + i] = std::exp(static_cast<C>(x[r * classes + i]) - total);
      sum += total - static_cast<C>(x[r * classes + wanted[r]]);
    }
    *loss.data<C>() = static_cast<C>(sum / static_cast<double>(rows));
  });
  return -1;
}

void CpuBackend::cross_entropy_grad(const Array& probabilities, const Array& target, const Array& grad_loss,
                                    const Array& grad_logits) {
  const std::int64_t rows = probabilities.dim(0), classes = probabilities.dim(1);
  const std::int64_t* wanted = target.data<std::int64_t>();
  dispatch_floating(grad_logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const C* p = probabilities.data<C>();
    const C factor = static_cast<C>(grad_loss.item() / static_cast<double>(rows));
    T* grad = static_cast<T*>(grad_logits.raw());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < classes; ++i)
        grad[r * classes + i] =
            static_cast<T>(cross_entropy_gradient(p[r * classes + i], i == wanted[r], factor));
  });
}

}  // namespace tandem
