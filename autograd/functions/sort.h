// In order of size, along a dimension. A NaN is larger than anything. Equals stay in the order of their positions,
// whatever `stable` says. The gradient goes where the values came from.
#pragma once

#include <tandem/autograd/functions/reduce.h>

namespace tandem {

ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = false);
Array argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = false);
// The k largest (smallest), in order, whatever `sorted` says. Error when there are fewer.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true);

// The number in the middle, the lower of two; NaN where there is one. Along `dim`: and where it is (i64).
ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
// Of all; equals share the gradient. Of nothing: NaN.
Tensor median(const Tensor& x);

}  // namespace tandem
