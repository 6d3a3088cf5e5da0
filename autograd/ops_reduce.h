// Over dimensions; all of them when `dims` is empty.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
// The gradient goes to the maxima, divided evenly among equals.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Array argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);  // i64; the first of equals

}  // namespace tandem
