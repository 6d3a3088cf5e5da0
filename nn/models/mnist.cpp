#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/nn/pooling.h>

namespace tandem::nn::models {

MnistNet::MnistNet()
    : layer1(add("layer1", Sequential{Conv2d(1, 16, 5, {.padding = 2}), BatchNorm2d(16), ReLU(), MaxPool2d(2)})),
      layer2(add("layer2", Sequential{Conv2d(16, 32, 5, {.padding = 2}), BatchNorm2d(32), ReLU(), MaxPool2d(2)})),
      fc(add("fc", Linear(7 * 7 * 32, 10))) {}

Tensor MnistNet::forward(const Tensor& x) { return fc(flatten(layer2(layer1(x)), 1)); }

}  // namespace tandem::nn::models
