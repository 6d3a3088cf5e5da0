#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

void CpuBackend::attention_weights(const Array& scores, const AttentionMask& mask, double scale, const Array& weights) {
  const std::int64_t queries = scores.dim(-2), keys = scores.dim(-1);
  const int row_rank = scores.ndim() - 1;
  dispatch_floating(scores.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(scores.raw());
    T* out = static_cast<T*>(weights.raw());
    const C* added = mask.added.defined() ? static_cast<const C*>(mask.added.raw()) : nullptr;
    cpu::parallel_for(scores.numel() / keys, scores.numel(), [&](std::int64_t r) {
      const std::int64_t n = mask.is_causal ? std::min(keys, r % queries + 1) : keys;
      const C* m = nullptr;
      if (added) m = added + offset_of(r, row_rank, mask.added.shape().begin(), mask.added.strides().begin());
      const std::int64_t step = added ? mask.added.strides()[row_rank] : 0;
      const T* x = in + r * keys;
      T* y = out + r * keys;
      const auto score = [&](std::int64_t i) {
        return static_cast<C>(x[i]) * static_cast<C>(scale) + (m ? m[i * step] : C(0));
      };
      C highest = -std::numeric_limits<C>::infinity(), sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const C s = score(i);
        if (s > highest || s != s) highest = s;
      }
      const bool sees_nothing = highest == -std::numeric_limits<C>::infinity();
      for (std::int64_t i = 0; i < n && !sees_nothing; ++i) sum += std::exp(score(i) - highest);
      for (std::int64_t i = 0; i < n; ++i)
        y[i] = static_cast<T>(sees_nothing ? C(0) : std::exp(score(i) - highest) / sum);
      std::fill(y + n, y + keys, T(C(0)));
    });
  });
}

void CpuBackend::attention_weights_grad(const Array& weights, const Array& grad, double scale,
                                        const Array& grad_scores) {
  const std::int64_t keys = weights.dim(-1);
  dispatch_floating(weights.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* w = static_cast<const T*>(weights.raw());
    const T* g = static_cast<const T*>(grad.raw());
    T* out = static_cast<T*>(grad_scores.raw());
    cpu::parallel_for(weights.numel() / keys, weights.numel(), [&](std::int64_t r) {
      C sum = 0;
      for (std::int64_t i = r * keys; i < (r + 1) * keys; ++i) sum += static_cast<C>(w[i]) * static_cast<C>(g[i]);
      for (std::int64_t i = r * keys; i < (r + 1) * keys; ++i)
        out[i] = static_cast<T>(static_cast<C>(w[i]) * (static_cast<C>(g[i]) - sum) * static_cast<C>(scale));
    });
  });
}

}  // namespace tandem
