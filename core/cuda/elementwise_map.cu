#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::map(const UnaryOp& op, const Array& x, const Array& y) {
  const auto dense = [&](const Array& from, const Array& to) {
    elementwise::apply<cuda::DenseLoops, Value>(op, to, from);
  };
  cuda::with_dense(dense, y, x);
}

}  // namespace tandem
