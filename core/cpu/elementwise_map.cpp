#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::map(const UnaryOp& op, const Array& x, const Array& y) {
  elementwise::apply<cpu::Loops, Value>(op, y, x);
}

}  // namespace tandem
