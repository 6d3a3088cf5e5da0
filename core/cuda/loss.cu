#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::log_softmax(const Array& , const Array& ) {
  detail::fail("log_softmax: not on CUDA yet");
}

void CudaBackend::log_softmax_grad(const Array& , const Array& , const Array& ) {
  detail::fail("log_softmax_grad: not on CUDA yet");
}

std::int64_t CudaBackend::cross_entropy(const Array& , const Array& , const Array& , const Array& ) {
  detail::fail("cross_entropy: not on CUDA yet");
}

void CudaBackend::cross_entropy_grad(const Array& , const Array& , const Array& , const Array& ) {
  detail::fail("cross_entropy_grad: not on CUDA yet");
}

}  // namespace tandem
