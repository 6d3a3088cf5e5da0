// Sorting along a dimension. A NaN counts as larger than every number. Equal elements keep their order, also without
// `stable`. The gradient goes to the places that the values came from.
#pragma once

#include <tandem/autograd/functions/reduce.h>

namespace tandem {

ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = false);
Array argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false, bool stable = false);
// The k largest (smallest) elements, in order, also without `sorted`. Error when there are fewer than k.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true);

// The element in the middle along `dim`, and its position (i64). Of two in the middle the lower one is taken. NaN when
// an element is NaN.
ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
// The median of all elements. Equal elements share the gradient. NaN when x has no elements.
Tensor median(const Tensor& x);

}  // namespace tandem
