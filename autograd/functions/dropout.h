// Dropout (Hinton et al., arXiv:1207.0580) sets random elements to zero in training.
#pragma once

#include <tandem/autograd/tensor.h>

#include <concepts>

namespace tandem {

// In training each element becomes 0 with probability p, and the other elements are divided by 1 - p. In evaluation the
// result is x. The random numbers come from this thread's default generator, so manual_seed() makes them reproducible.
// They depend on the element's position in memory, are the same on every device, and differ from PyTorch's. In a
// recorded graph, each replay drops different elements.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
// Drops whole channels of x (N, C, ...).
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);

// A bool in place of p is a mistake: it would be converted to a probability of 0 or 1.
template <std::same_as<bool> Bool>
Tensor dropout(const Tensor& x, Bool training) = delete;
template <std::same_as<bool> Bool>
Tensor dropout2d(const Tensor& x, Bool training) = delete;

}  // namespace tandem
