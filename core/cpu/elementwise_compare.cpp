#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  elementwise::compare<cpu::Loops>(op, a, b, y);
}
void CpuBackend::compare(const CompareOp& op, const Array& x, double number, const Array& y) {
  elementwise::compare<cpu::Loops>(op, x, number, y);
}

}  // namespace tandem
