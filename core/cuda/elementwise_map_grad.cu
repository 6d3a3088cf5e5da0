#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  elementwise::map_grad<cuda::Loops>(op, saved, grad_y, grad_x);
}

}  // namespace tandem
