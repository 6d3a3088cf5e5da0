#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::batch_norm_stats(const Array& , const Array& , const Array& ) {
  detail::fail("batch_norm_stats: not on CUDA yet");
}

void CudaBackend::batch_norm_apply(const Array& , const BatchNormAffine& , BatchNormFusion , const Array& , const Array& , const Array& ) {
  detail::fail("batch_norm_apply: not on CUDA yet");
}

void CudaBackend::batch_norm_grad_reduce(const Array& , const BatchNormAffine& , BatchNormFusion , const Array& , const Array& , const Array& ) {
  detail::fail("batch_norm_grad_reduce: not on CUDA yet");
}

void CudaBackend::batch_norm_grad_input(const Array& , const BatchNormAffine& , BatchNormFusion , const Array& , const Array& , const Array& , const Array& , const Array& ) {
  detail::fail("batch_norm_grad_input: not on CUDA yet");
}

}  // namespace tandem
