// Initial values of parameters, drawn as PyTorch draws them.
#pragma once

#include <tandem/core/array.h>
#include <tandem/core/random.h>

namespace tandem::nn::init {

// U(-bound, bound), element by element in row-major order.
Array uniform(const Shape& shape, double bound, Generator& generator = default_generator());

// What PyTorch gives the weight of Linear (out, in) and Conv2d (out, in, kh, kw): He et al., arXiv:1502.01852, with
// a = sqrt(5), which makes the bound 1 / sqrt(fan_in).
Array kaiming_uniform(const Shape& shape, Generator& generator = default_generator());

// The number of inputs that one output sums over, from a weight's shape.
std::int64_t fan_in(const Shape& weight);

}  // namespace tandem::nn::init
