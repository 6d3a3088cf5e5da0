#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::compare<cuda::Loops>(op, a, b, y);
}
void CudaBackend::compare(const CompareOp& op, const Array& x, double number, const Array& y) {
  elementwise::compare<cuda::Loops>(op, x, number, y);
}

}  // namespace tandem
