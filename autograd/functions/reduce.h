// Reductions over the dimensions `dims`, or over all dimensions when `dims` is empty. A negative dimension counts from
// the end. The maximum over a dimension of size 0 is an Error. Results without gradient are Arrays.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem {

Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // of integers and bools: i64
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // of integers and bools: i64

struct VarOptions {
  double correction = 1;  // the sum of squares is divided by the number of elements less this
  bool keepdim = false;
};
Tensor var(const Tensor& x, const Dims& dims = {}, const VarOptions& options = {});
// The square root of var(). PyTorch calls it std, which is a namespace in C++.
Tensor stddev(const Tensor& x, const Dims& dims = {}, const VarOptions& options = {});

// The sum of |x|^p, to the power of 1/p. For p = infinity the largest |x|, for p = -infinity the smallest |x|, for p =
// 0 the number of elements that are not 0.
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);
// log(sum(exp(x))) without overflow. Integers count as f32.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);

// The largest (smallest) element. The gradient goes to it; equal elements share the gradient evenly. A NaN counts as
// larger (smaller) than every number.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);

// The largest (smallest) element along `dim`, and its position (i64). If elements are equal, the first is taken, and
// gets the gradient.
struct ValuesAndIndices {
  Tensor values;
  Array indices;
};
ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
// Only the position. Without `dim` it is the position in x as one long row.
Array argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

Array any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // bool; of u8: u8
Array all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Array count_nonzero(const Tensor& x, const Dims& dims = {});  // i64

// Sums (products) from the beginning of `dim` to each element. Integers and bools give i64.
Tensor cumsum(const Tensor& x, std::int64_t dim);
Tensor cumprod(const Tensor& x, std::int64_t dim);
// Each element along `dim` minus the element before it. This is done n times. For bools, it says whether the two
// differ.
Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1);

}  // namespace tandem
