#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>

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
void CudaBackend::where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  elementwise::where<cuda::Loops>(condition, a, b, y);
}

}  // namespace tandem
