#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>
#include <tandem/core/element_functions.h>

namespace tandem {

void CudaBackend::copy(const Array& from, const Array& to) {
  if (from.dtype() == to.dtype()) {
    switch (size_of(from.dtype())) {
      case 1: return cuda::Loops::transform<std::uint8_t, std::uint8_t>(from, to, Keep{});
      case 2: return cuda::Loops::transform<std::uint16_t, std::uint16_t>(from, to, Keep{});
      case 4: return cuda::Loops::transform<std::uint32_t, std::uint32_t>(from, to, Keep{});
      default: return cuda::Loops::transform<std::uint64_t, std::uint64_t>(from, to, Keep{});
    }
  }
  elementwise::convert<cuda::Loops>(from, to);
}
void CudaBackend::fill(const Array& to, double value) { elementwise::fill<cuda::Loops>(to, value); }
void CudaBackend::map(const UnaryOp& op, const Array& x, const Array& y) { elementwise::map<cuda::Loops>(op, x, y); }
void CudaBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  elementwise::map_grad<cuda::Loops>(op, saved, grad_y, grad_x);
}
void CudaBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::zip<cuda::Loops>(op, a, b, y);
}
void CudaBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                          const Array& grad) {
  elementwise::zip_grad<cuda::Loops>(op, operand, a, b, grad_y, grad);
}
void CudaBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::compare<cuda::Loops>(op, a, b, y);
}

}  // namespace tandem
