#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::zip<cpu::Loops>(op, a, b, y);
}

}  // namespace tandem
