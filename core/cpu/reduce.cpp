#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/reduce_loops.h>

namespace tandem {

namespace cpu {

extern template void reduce_with(const reductions::Max&, const Array&, const Array&);
extern template void reduce_with(const reductions::Min&, const Array&, const Array&);
extern template void reduce_with(const reductions::MaxMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::MinMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::Var&, const Array&, const Array&);
extern template void reduce_with(const reductions::Norm&, const Array&, const Array&);
extern template void reduce_with(const reductions::LogSumExp&, const Array&, const Array&);

}  // namespace cpu

void CpuBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cpu::reduce_with(f, x, y); }, op.any());
}

void CpuBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                             const Array& grad_x) {
  const auto run = [&](const auto& f) {
    dispatch_floating(grad_x.dtype(), "gradient of a reduction", [&](auto type) {
      using T = decltype(type);
      using C = compute_t<T>;
      const T* px = static_cast<const T*>(x.raw());
      const T* py = static_cast<const T*>(y.raw());
      const T* pg = static_cast<const T*>(grad_y.raw());
      T* out = static_cast<T*>(grad_x.raw());
      cpu::for_each_row<4>(
          {&x, &y, &grad_y, &grad_x}, [&](const auto& offset, const auto& stride, std::int64_t n) {
            const T* a = px + offset[0];
            const T* b = py + offset[1];
            const T* g = pg + offset[2];
            T* to = out + offset[3];
            const auto derivative = [&f](T each_a, T each_b, T each_g) {
              return static_cast<T>(
                  f.derivative(static_cast<C>(each_a), static_cast<C>(each_b), static_cast<C>(each_g)));
            };
            if (stride[0] == 1 && stride[1] == 0 && stride[2] == 0 && stride[3] == 1) {
              const T of_row = *b, grad = *g;
              for (std::int64_t i = 0; i < n; ++i) to[i] = derivative(a[i], of_row, grad);
            } else if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1 && stride[3] == 1) {
              for (std::int64_t i = 0; i < n; ++i) to[i] = derivative(a[i], b[i], g[i]);
            } else {
              for (std::int64_t i = 0; i < n; ++i)
                to[i * stride[3]] = derivative(a[i * stride[0]], b[i * stride[1]], g[i * stride[2]]);
            }
          });
    });
  };
  with_derivative(op, run);
}

template void cpu::reduce_with(const reductions::Sum&, const Array&, const Array&);
template void cpu::reduce_with(const reductions::Prod&, const Array&, const Array&);
template void cpu::reduce_with(const reductions::CountNonzero&, const Array&, const Array&);

}  // namespace tandem
