#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::map(const UnaryOp& op, const Array& x, const Array& y) { elementwise::map<cuda::Loops>(op, x, y); }

}  // namespace tandem
