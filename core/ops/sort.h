// Sorting. A NaN counts as larger than any number. Equal numbers keep the order of their positions.
#pragma once

#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

Found sort(const Array& x, std::int64_t dim = -1, bool descending = false);
// Returns the k largest (or smallest) numbers along `dim`, in order.
Found topk(const Array& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);
// Returns the median along `dim` and its position. If the number of elements is even, the median is the lower of the
// two middle elements. If there is a NaN, it is the first NaN. Throws an Error if the dimension is empty.
Found median(const Array& x, std::int64_t dim, bool keepdim = false);

}  // namespace tandem::ops
