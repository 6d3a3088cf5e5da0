// Over dimensions.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

// Over `dims` (all when empty). Sums of integers and bools are i64; argmax takes one dim and gives i64.
Array reduce(Reduction op, const Array& x, const Dims& dims = {}, bool keepdim = false);
// Sums x to `shape`: the gradient of broadcasting.
Array sum_to(const Array& x, const Shape& shape);

}  // namespace tandem::ops
