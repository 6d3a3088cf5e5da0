// Sorting along a dimension. A NaN counts as larger than every number. Equal elements always keep their order. The
// gradient goes to the positions from which the values came.
#pragma once

#include <tandem/autograd/functions/reduce.h>

namespace tandem {

struct SortOptions {
  bool descending = false;
  bool stable = false;  // for compatibility with PyTorch; every sort here is stable
};
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, const SortOptions& options = {});
Array argsort(const Tensor& x, std::int64_t dim = -1, const SortOptions& options = {});

struct TopkOptions {
  bool largest = true;
  bool sorted = true;  // for compatibility with PyTorch; the elements here are always in order
};
// The k largest (smallest) elements, in order. Throws an Error if there are fewer than k.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, const TopkOptions& options = {});

// The middle element along `dim`, and its position (i64). If there are two middle elements, the lower one is chosen.
// NaN if an element is NaN.
ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
// The median of all elements. Equal elements share the gradient. NaN if x has no elements.
Tensor median(const Tensor& x);

}  // namespace tandem
