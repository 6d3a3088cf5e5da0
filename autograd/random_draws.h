// Random draws from the outputs of a network. Draws have no gradient. core/ops/create.h has more.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/ops/create.h>

namespace tandem {

// Draws 1 with the probability that `probabilities` gives, else 0: ops::bernoulli.
inline Array bernoulli(const Tensor& probabilities, Generator& generator = default_generator()) {
  return ops::bernoulli(probabilities.value(), generator);
}
// Draws `count` positions in each row of `weights`, in proportion to the weights: ops::multinomial.
//
//   const Array next = multinomial(softmax(logits, -1), 1);  // (rows, 1)
inline Array multinomial(const Tensor& weights, std::int64_t count, bool replacement = false,
                         Generator& generator = default_generator()) {
  return ops::multinomial(weights.value(), count, replacement, generator);
}

}  // namespace tandem
