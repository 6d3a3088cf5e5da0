#include <tandem/core/array/element_dispatch.h>
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

void CudaBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cuda::reduce_with(f, x, y); }, op.any());
}

void CudaBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                              const Array& grad_x) {
  tandem::reduce_grad<cuda::Loops>(op, x, y, grad_y, grad_x);
}

}  // namespace tandem
