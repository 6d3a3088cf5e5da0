#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

namespace tandem {

void CpuBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                          const Array& grad) {
  if (operand == 0) elementwise::apply<cpu::Loops, FirstGradient>(op, grad, a, b, grad_y);
  else elementwise::apply<cpu::Loops, SecondGradient>(op, grad, a, b, grad_y);
}

}  // namespace tandem
