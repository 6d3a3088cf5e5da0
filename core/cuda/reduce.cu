#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>
#include <tandem/core/cuda/reduce.cuh>

namespace tandem {

namespace cuda {

extern template void reduce_with(const reductions::Max&, const Array&, const Array&);
extern template void reduce_with(const reductions::Min&, const Array&, const Array&);
extern template void reduce_with(const reductions::MaxMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::MinMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::Var&, const Array&, const Array&);
extern template void reduce_with(const reductions::Norm&, const Array&, const Array&);
extern template void reduce_with(const reductions::LogSumExp&, const Array&, const Array&);

}  // namespace cuda

namespace {

template <class F, class T>
struct Derivative {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T x, T y, T grad) const {
    return static_cast<T>(f.derivative(static_cast<C>(x), static_cast<C>(y), static_cast<C>(grad)));
  }
};

}  // namespace

void CudaBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cuda::reduce_with(f, x, y); }, op.any());
}

void CudaBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                              const Array& grad_x) {
  const auto run = [&](const auto& f) {
    using F = std::decay_t<decltype(f)>;
    dispatch_floating(grad_x.dtype(), "gradient of a reduction", [&](auto type) {
      using T = decltype(type);
      cuda::Loops::transform<T, T>(x, y, grad_y, grad_x, Derivative<F, T>{f});
    });
  };
  with_derivative(op, run);
}

}  // namespace tandem
