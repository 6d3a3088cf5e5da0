#include <tandem/core/cuda/reduce.cuh>

namespace tandem::cuda {

template void reduce_with(const reductions::Var&, const Array&, const Array&);
template void reduce_with(const reductions::Norm&, const Array&, const Array&);
template void reduce_with(const reductions::LogSumExp&, const Array&, const Array&);

}  // namespace tandem::cuda
