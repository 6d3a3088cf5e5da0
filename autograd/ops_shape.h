// Another shape of the same numbers.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

Tensor reshape(const Tensor& x, const Shape& shape);  // one entry may be -1
Tensor flatten(const Tensor& x, std::int64_t from_dim = 0);
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);

}  // namespace tandem
