// Losses, and what they are made of.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

Tensor log_softmax(const Tensor& x);  // over the last dimension
Tensor softmax(const Tensor& x);
// The mean over N of -log softmax(logits)[target]. logits (N, classes), target (N) i64.
Tensor cross_entropy(const Tensor& logits, const Array& target);

}  // namespace tandem
