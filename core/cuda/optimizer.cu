#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::sgd_step(std::span<const SgdSegment> , const SgdOptions& ) {
  detail::fail("sgd_step: not on CUDA yet");
}

}  // namespace tandem
