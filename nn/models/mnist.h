// The network of "A Short Guide to PyTorch DDP": two convolutions with batch norm and pooling, and a linear layer.
#pragma once

#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>

namespace tandem::nn::models {

// Images (N, 1, 28, 28) of digits -> logits (N, 10).
class MnistNet : public Module {
 public:
  MnistNet();
  Tensor forward(const Tensor& x) override;

  Sequential &layer1, &layer2;
  Linear& fc;
};

}  // namespace tandem::nn::models
