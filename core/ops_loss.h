// Losses, and what they are made of.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

Array log_softmax(const Array& x);  // over the last dimension
Array log_softmax_grad(const Array& y, const Array& grad_y);
struct CrossEntropy {
  Array loss;           // ()
  Array probabilities;  // (N, C)
};
CrossEntropy cross_entropy(const Array& logits, const Array& target);
Array cross_entropy_grad(const CrossEntropy& forward, const Array& target, const Array& grad_loss,
                         DType dtype);

}  // namespace tandem::ops
