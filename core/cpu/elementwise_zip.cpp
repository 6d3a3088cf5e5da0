#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::apply<cpu::Loops, Value>(op, y, a, b);
}

}  // namespace tandem
