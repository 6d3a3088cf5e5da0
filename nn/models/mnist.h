// The network of "A Short Guide to PyTorch DDP": two convolutions with batch norm and pooling, and a linear layer.
#pragma once

#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

namespace tandem::nn::models {

// Pictures (N, 1, 28, 28) of digits -> logits (N, 10).
struct MnistNet : nn::Module {
  nn::Sequential& layer1 = add("layer1", nn::Sequential{nn::Conv2d(1, 16, 5, {.padding = 2}), nn::BatchNorm2d(16),
                                                        nn::ReLU(), nn::MaxPool2d(2)});
  nn::Sequential& layer2 = add("layer2", nn::Sequential{nn::Conv2d(16, 32, 5, {.padding = 2}), nn::BatchNorm2d(32),
                                                        nn::ReLU(), nn::MaxPool2d(2)});
  nn::Linear& fc = add("fc", nn::Linear(7 * 7 * 32, 10));
  Tensor forward(const Tensor& x) override { return fc(flatten(layer2(layer1(x)), 1)); }
};

}  // namespace tandem::nn::models
