// The arithmetic of a reduction over ranks for arrays in host memory.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {

// Computes out[i] = sources[0][i] op sources[1][i] op ..., in that order, for i < elements. 16-bit floats are
// accumulated in f32 and rounded once. `out` may be one of the sources. For ReduceOp::mean, each source is multiplied
// by 1/count before it is added. The compiler may contract that multiplication and addition into one fused
// multiply-add, so the last bits of a mean depend on the build. The other reductions have nothing to contract, and
// their order is fixed.
using ReduceFunction = void (*)(void* out, const void* const* sources, int count, std::size_t elements);
ReduceFunction reduce_function(DType dtype, ReduceOp op);

// Computes data[i] *= factor. Floating dtypes only.
void scale(void* data, DType dtype, std::size_t elements, double factor);

}  // namespace tandem::distributed
