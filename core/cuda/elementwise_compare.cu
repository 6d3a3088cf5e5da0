#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

void CudaBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  const auto dense = [&](const Array& p, const Array& q, const Array& to) {
    elementwise::compare<cuda::DenseLoops>(op, p, q, to);
  };
  cuda::with_dense(dense, y, a, b);
}
void CudaBackend::compare(const CompareOp& op, const Array& x, double number, const Array& y) {
  const auto dense = [&](const Array& from, const Array& to) {
    elementwise::compare<cuda::DenseLoops>(op, from, number, to);
  };
  cuda::with_dense(dense, y, x);
}

}  // namespace tandem
