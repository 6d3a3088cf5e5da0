#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::conv2d(const Array& , const Array& , const std::optional<Array>& , const Window& , const Array& ) {
  detail::fail("conv2d: not on CUDA yet");
}

void CudaBackend::conv2d_grad_input(const Array& , const Array& , const Window& , const Array& ) {
  detail::fail("conv2d_grad_input: not on CUDA yet");
}

void CudaBackend::conv2d_grad_weight(const Array& , const Array& , const Window& , const Array& , const std::optional<Array>& ) {
  detail::fail("conv2d_grad_weight: not on CUDA yet");
}

}  // namespace tandem
