// Random draws from what a network gives. Draws have no gradient. More are in core/ops/create.h.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/ops/create.h>

namespace tandem {

// 1 with the probability that stands in `probabilities`, else 0: ops::bernoulli.
inline Array bernoulli(const Tensor& probabilities, Generator& generator = default_generator()) {
  return ops::bernoulli(probabilities.value(), generator);
}
// `count` positions in each row of `weights`, drawn in proportion to them: ops::multinomial.
//
//   const Array next = multinomial(softmax(logits, -1), 1);  // (rows, 1)
inline Array multinomial(const Tensor& weights, std::int64_t count, bool replacement = false,
                         Generator& generator = default_generator()) {
  return ops::multinomial(weights.value(), count, replacement, generator);
}

}  // namespace tandem
