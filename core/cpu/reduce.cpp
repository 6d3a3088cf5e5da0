#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/reduce_loops.h>

namespace tandem {

void CpuBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cpu::reduce_with(f, x, y); }, op.any());
}

void CpuBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                             const Array& grad_x) {
  tandem::reduce_grad<cpu::Loops>(op, x, y, grad_y, grad_x);
}

}  // namespace tandem
