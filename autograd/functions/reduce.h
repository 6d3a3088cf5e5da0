// Over dimensions; all of them when `dims` is empty. Dimensions may be negative, those of size 0 have no maximum: an
// Error. Results without gradient are Arrays.
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
Tensor std(const Tensor& x, const Dims& dims = {}, const VarOptions& options = {});

// The sum of |x|^p, to the power of 1/p; p = infinity: the largest |x|, -infinity: the smallest, 0: how many are not 0.
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);
// log(sum(exp(x))) without overflow; integers as f32.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);

// The gradient goes to the maxima (minima), divided evenly among equals. A NaN is larger and smaller than anything.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);

// What is largest (smallest) along `dim`, and where (i64): the first of equals, to which the gradient goes.
struct ValuesAndIndices {
  Tensor values;
  Array indices;
};
ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
// The position alone; without `dim` in x read row by row.
Array argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Array argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

Array any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // bool; of u8: u8
Array all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Array count_nonzero(const Tensor& x, const Dims& dims = {});  // i64

// Sums (products) from the beginning of `dim` to each element; i64 of integers and bools.
Tensor cumsum(const Tensor& x, std::int64_t dim);
Tensor cumprod(const Tensor& x, std::int64_t dim);
// Each element along `dim` less the one before it, n times; of bools: whether they differ.
Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1);

}  // namespace tandem
