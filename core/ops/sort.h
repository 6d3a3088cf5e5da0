// Sorting. A NaN counts as larger than any number. Equal numbers stay in the order of their positions.
#pragma once

#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

Found sort(const Array& x, std::int64_t dim = -1, bool descending = false);
// The k largest (or smallest) numbers along `dim`, in order.
Found topk(const Array& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);
// The median along `dim` and its position: the lower of the two middle numbers when their number is even, and the first
// NaN when there is one. Error when the dimension is empty.
Found median(const Array& x, std::int64_t dim, bool keepdim = false);

}  // namespace tandem::ops
