#include <tandem/core/cuda/cublas.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/layouts.h>

namespace tandem {

void CudaBackend::matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (a.dim(1) == 0) {
    fill(y, 0);
    if (bias) copy(bias->expand(y.shape()), y);
    return;
  }
  const Array left = cuda::transpose_of(a) ? a : a.contiguous();
  const Array right = cuda::transpose_of(b) ? b : b.contiguous();
  const Array row = bias ? cuda::packed(*bias, y.dtype()) : Array();
  if (!cuda::multiply(left, right, bias ? &row : nullptr, y))
    zip(functors::Add{}, y, row.expand(y.shape()), y);
}

}  // namespace tandem
