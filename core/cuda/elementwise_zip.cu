#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::apply<cuda::Loops, Value>(op, y, a, b);
}

}  // namespace tandem
