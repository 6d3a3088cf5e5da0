// Reductions over the dimensions `dims`, or over all dimensions if `dims` is empty. A negative dimension counts from
// the end. The maximum over a dimension of size 0 is an Error. Operations without a gradient return Arrays.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // integers and bools give i64
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // integers and bools give i64

struct VarOptions {
  double correction = 1;  // the sum of squares is divided by the number of elements minus this
  bool keepdim = false;
};
Tensor var(const Tensor& x, const Dims& dims = {}, const VarOptions& options = {});
// The square root of var(). PyTorch calls it std, which is a namespace in C++.
Tensor stddev(const Tensor& x, const Dims& dims = {}, const VarOptions& options = {});

// The sum of |x|^p, to the power of 1/p. For p = infinity it is the largest |x|, for p = -infinity the smallest |x|,
// and for p = 0 the number of nonzero elements.
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);
// log(sum(exp(x))) without overflow. Integers count as f32.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);

// The largest (smallest) element. It gets the gradient; equal elements share the gradient evenly. A NaN counts as
// larger (smaller) than every number.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);

// The largest (smallest) element along `dim`, and its position (i64). If several elements are equal, the first is
// chosen and gets the gradient.
struct ValuesAndIndices {
  Tensor values;
  Array indices;
};
ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
// Returns only the position. Without `dim`, it is the position in the flattened x.
Array argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

Array any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // returns bools, or u8 for u8
Array all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Array count_nonzero(const Tensor& x, const Dims& dims = {});  // returns i64

// Cumulative sums (products) along `dim`. Integers and bools give i64.
Tensor cumsum(const Tensor& x, std::int64_t dim);
Tensor cumprod(const Tensor& x, std::int64_t dim);
// Subtracts from each element along `dim` the element before it, n times. For bools, the result is true where the two
// differ.
Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1);

}  // namespace tandem
