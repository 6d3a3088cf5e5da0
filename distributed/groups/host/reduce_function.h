// The arithmetic of a reduction over ranks, for arrays in host memory.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {

// out[i] = sources[0][i] op sources[1][i] op ..., in that order, for i < elements. 16-bit floats are summed up in f32
// and rounded once. `out` may be one of the sources. Equal inputs give equal bits on ranks that run the same program.
// For ReduceOp::mean each source is multiplied by 1 / count first.
using ReduceFunction = void (*)(void* out, const void* const* sources, int count, std::size_t elements);
ReduceFunction reduce_function(DType dtype, ReduceOp op);

// data[i] *= factor. Floating dtypes.
void scale(void* data, DType dtype, std::size_t elements, double factor);

}  // namespace tandem::distributed
