#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  const auto dense = [&](const Array& s, const Array& g, const Array& to) {
    elementwise::apply<cuda::DenseLoops, UnaryGradient>(op, to, s, g);
  };
  cuda::with_dense(dense, grad_x, saved, grad_y);
}

}  // namespace tandem
