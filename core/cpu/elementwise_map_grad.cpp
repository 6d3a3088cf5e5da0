#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  elementwise::apply<cpu::Loops, UnaryGradient>(op, grad_x, saved, grad_y);
}

}  // namespace tandem
