#include <tandem/core/cuda/reduce.cuh>

namespace tandem::cuda {

template void reduce_with(const reductions::Max&, const Array&, const Array&);
template void reduce_with(const reductions::Min&, const Array&, const Array&);
template void reduce_with(const reductions::MaxMagnitude&, const Array&, const Array&);
template void reduce_with(const reductions::MinMagnitude&, const Array&, const Array&);

}  // namespace tandem::cuda
