#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::max_pool2d(const Array& , const Window& , const Array& , const Array& ) {
  detail::fail("max_pool2d: not on CUDA yet");
}

void CudaBackend::max_pool2d_grad(const Array& , const Array& , const Window& , const Array& ) {
  detail::fail("max_pool2d_grad: not on CUDA yet");
}

}  // namespace tandem
