// Sorting along a dimension. A NaN counts as larger than every number. Equal elements always keep their order. The
// gradient goes to the places that the values came from.
#pragma once

#include <tandem/autograd/functions/reduce.h>

namespace tandem {

struct SortOptions {
  bool descending = false;
  bool stable = false;  // PyTorch's; here every sort is stable
};
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, const SortOptions& options = {});
Array argsort(const Tensor& x, std::int64_t dim = -1, const SortOptions& options = {});

struct TopkOptions {
  bool largest = true;
  bool sorted = true;  // PyTorch's; here the elements are always in order
};
// The k largest (smallest) elements, in order. Error when there are fewer than k.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, const TopkOptions& options = {});

// The element in the middle along `dim`, and its position (i64). If two are in the middle, the lower one is taken. NaN
// when an element is NaN.
ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
// The median of all elements. Equal elements share the gradient. NaN when x has no elements.
Tensor median(const Tensor& x);

}  // namespace tandem
