#pragma once

#include <tandem/autograd/ops.h>

namespace tandem::nn {

// Mean over the batch of -log softmax(logits)[target]. logits (N, classes), target (N) i64 -> ().
class CrossEntropyLoss {
 public:
  Tensor operator()(const Tensor& logits, const Array& target) const { return cross_entropy(logits, target); }
};

}  // namespace tandem::nn
