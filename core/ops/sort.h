// In order of size. A NaN is larger than anything; equals stay in the order of their positions.
#pragma once

#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

Found sort(const Array& x, std::int64_t dim = -1, bool descending = false);
// The k largest (smallest) along `dim`, in order.
Found topk(const Array& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);
// The number in the middle along `dim`, the lower of two, and where it is; the first NaN where there is one. Of
// nothing: Error.
Found median(const Array& x, std::int64_t dim, bool keepdim = false);

}  // namespace tandem::ops
