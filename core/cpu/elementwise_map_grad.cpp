#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  elementwise::map_grad<cpu::Loops>(op, saved, grad_y, grad_x);
}

}  // namespace tandem
