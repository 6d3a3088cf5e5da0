#include <tandem/core/cpu/reduce_loops.h>

namespace tandem::cpu {

template void reduce_with(const reductions::Max&, const Array&, const Array&);
template void reduce_with(const reductions::Min&, const Array&, const Array&);
template void reduce_with(const reductions::MaxMagnitude&, const Array&, const Array&);
template void reduce_with(const reductions::MinMagnitude&, const Array&, const Array&);

}  // namespace tandem::cpu
