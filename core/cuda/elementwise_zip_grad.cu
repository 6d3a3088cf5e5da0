#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                           const Array& grad) {
  const auto dense = [&](const Array& p, const Array& q, const Array& g, const Array& to) {
    if (operand == 0) elementwise::apply<cuda::DenseLoops, FirstGradient>(op, to, p, q, g);
    else elementwise::apply<cuda::DenseLoops, SecondGradient>(op, to, p, q, g);
  };
  cuda::with_dense(dense, grad, a, b, grad_y);
}

}  // namespace tandem
