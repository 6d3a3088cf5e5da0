#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::matmul(const Array& , const Array& , const std::optional<Array>& , const Array& ) {
  detail::fail("matmul: not on CUDA yet");
}

}  // namespace tandem
