#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/reduce_loops.h>

namespace tandem {

namespace cpu {

extern template void reduce_with(const reductions::Max&, const Array&, const Array&);
extern template void reduce_with(const reductions::Min&, const Array&, const Array&);
extern template void reduce_with(const reductions::MaxMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::MinMagnitude&, const Array&, const Array&);
extern template void reduce_with(const reductions::Var&, const Array&, const Array&);
extern template void reduce_with(const reductions::Norm&, const Array&, const Array&);
extern template void reduce_with(const reductions::LogSumExp&, const Array&, const Array&);

}  // namespace cpu

void CpuBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cpu::reduce_with(f, x, y); }, op.any());
}

void CpuBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                             const Array& grad_x) {
  tandem::reduce_grad<cpu::Loops>(op, x, y, grad_y, grad_x);
}

template void cpu::reduce_with(const reductions::Sum&, const Array&, const Array&);
template void cpu::reduce_with(const reductions::Prod&, const Array&, const Array&);
template void cpu::reduce_with(const reductions::CountNonzero&, const Array&, const Array&);

}  // namespace tandem
