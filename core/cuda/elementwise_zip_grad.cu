#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                           const Array& grad) {
  elementwise::zip_grad<cuda::Loops>(op, operand, a, b, grad_y, grad);
}

}  // namespace tandem
