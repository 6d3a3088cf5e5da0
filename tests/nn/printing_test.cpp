// The printed form of Tensors, Modules and summaries.
#include <tandem/core/ops.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/attention.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/containers.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/embedding.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/nn/normalization.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/softmax.h>
#include <tandem/nn/summary.h>

#include <gtest/gtest.h>

#include <sstream>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using nn::models::MnistNet;
using testing::array_of;

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Printing, Tensor) {
  const Tensor x(array_of({1, 2.5}), true);
  EXPECT_EQ(text(x), "Tensor(2) f32 cpu requires_grad [1.0000, 2.5000]");
  EXPECT_EQ(text(relu(x)), "Tensor(2) f32 cpu grad_fn=relu [1.0000, 2.5000]");
  EXPECT_EQ(text(x.detach()), "Tensor(2) f32 cpu [1.0000, 2.5000]");
  EXPECT_EQ(text(Tensor(array_of({1, 2}, {2, 1}))), "Tensor(2, 1) f32 cpu\n[[1.],\n [2.]]");
  EXPECT_EQ(text(Tensor()), "Tensor(undefined)");
}

TEST(Printing, ModuleTree) {
  EXPECT_EQ(text(nn::Linear(784, 10)), "Linear(in=784, out=10)");
  EXPECT_EQ(text(nn::Linear(784, 10, {.bias = false})), "Linear(in=784, out=10, without bias)");
  EXPECT_EQ(text(nn::BatchNorm2d(3, {.affine = false, .track_running_stats = false})), "BatchNorm2d(3)");
  EXPECT_EQ(text(nn::Conv2d(3, 8, {3, 5}, {.stride = 2, .dilation = 2, .bias = false})),
            "Conv2d(3, 8, kernel 3x5, stride 2x2, dilation 2x2, without bias)");
  EXPECT_EQ(text(nn::Bilinear(2, 3, 4)), "Bilinear(in1=2, in2=3, out=4)");
  EXPECT_EQ(text(nn::Embedding(1000, 64)), "Embedding(1000, 64)");
  EXPECT_EQ(text(nn::LayerNorm(64)), "LayerNorm(64)");
  EXPECT_EQ(text(nn::RMSNorm({3, 4})), "RMSNorm(3, 4)");
  EXPECT_EQ(text(nn::GroupNorm(4, 32)), "GroupNorm(4 groups, 32)");
  EXPECT_EQ(text(nn::InstanceNorm2d(3)), "InstanceNorm2d(3)");
  EXPECT_EQ(text(nn::Dropout(0.25)), "Dropout(0.25)");
  EXPECT_EQ(text(nn::Dropout2d()), "Dropout2d(0.5)");
  EXPECT_EQ(text(nn::Softmax(-1)), "Softmax(dim -1)");
  EXPECT_EQ(text(nn::LeakyReLU(0.2)), "LeakyReLU(0.2)");
  EXPECT_EQ(text(nn::Hardtanh(-2, 3)), "Hardtanh(-2, 3)");
  EXPECT_EQ(text(nn::PReLU(8)), "PReLU(8)");
  EXPECT_EQ(text(nn::GELU(Approximate::tanh)), "GELU(tanh)");
  EXPECT_EQ(text(nn::AdaptiveAvgPool2d(1)), "AdaptiveAvgPool2d(to 1x1)");
  EXPECT_EQ(text(nn::MultiheadAttention(64, 4)).substr(0, 31), "MultiheadAttention(64, 4 heads)");
  nn::Sequential functions{relu, nn::ReLU()};
  EXPECT_EQ(text(functions), "Sequential {\n  0: function\n  1: ReLU\n}");
  EXPECT_EQ(text(nn::ModuleList()), "ModuleList");
  EXPECT_EQ(text(MnistNet()), R"(MnistNet {
  layer1: Sequential {
    0: Conv2d(1, 16, kernel 5x5, padding 2x2)
    1: BatchNorm2d(16)
    2: ReLU
    3: MaxPool2d(kernel 2x2, stride 2x2)
  }
  layer2: Sequential {
    0: Conv2d(16, 32, kernel 5x5, padding 2x2)
    1: BatchNorm2d(32)
    2: ReLU
    3: MaxPool2d(kernel 2x2, stride 2x2)
  }
  fc: Linear(in=1568, out=10)
})");
}

TEST(Printing, Summary) {
  MnistNet net;
  net.layer1[1].eval();
  net.layer1.requires_grad_(false);
  const auto summary = nn::summary(net, Tensor(ops::zeros({4, 1, 28, 28})));
  EXPECT_EQ(text(summary), R"(module                                          output           parameters
MnistNet                                        (4, 10)
  layer1: Sequential                            (4, 16, 14, 14)
    0: Conv2d(1, 16, kernel 5x5, padding 2x2)   (4, 16, 28, 28)         416
    1: BatchNorm2d(16)                          (4, 16, 28, 28)          32
    2: ReLU                                     (4, 16, 28, 28)
    3: MaxPool2d(kernel 2x2, stride 2x2)        (4, 16, 14, 14)
  layer2: Sequential                            (4, 32, 7, 7)
    0: Conv2d(16, 32, kernel 5x5, padding 2x2)  (4, 32, 14, 14)      12,832
    1: BatchNorm2d(32)                          (4, 32, 14, 14)          64
    2: ReLU                                     (4, 32, 14, 14)
    3: MaxPool2d(kernel 2x2, stride 2x2)        (4, 32, 7, 7)
  fc: Linear(in=1568, out=10)                   (4, 10)              15,690
29,034 parameters (113 KiB), 28,586 of them trained; buffers 400 bytes
)");
  // The summary has not changed the model.
  EXPECT_TRUE(net.is_training() && net.layer1[0].is_training() && !net.layer1[1].is_training());
  for (const auto& module : net.modules()) EXPECT_FALSE(module.module.has_forward_hooks());
  EXPECT_EQ(net.state_dict()[6].array.item(), 0);  // number of batches
  EXPECT_ERROR(nn::summary(net, Tensor(ops::zeros({4, 3, 28, 28}))), "conv2d");
  EXPECT_FALSE(net.has_forward_hooks());
}

struct Backwards : nn::Module {
  nn::Linear& second = add("second", nn::Linear(3, 2));
  nn::Linear& first = add("first", nn::Linear(4, 3));
  nn::Linear& unused = add("unused", nn::Linear(1, 1));
  using nn::Module::forward;
  Tensor forward(const Tensor& x, const Tensor& y) { return second(first(x) + first(y)); }
};

TEST(Printing, SummaryInOrderOfCalls) {
  Backwards net;
  const Tensor x(ops::zeros({5, 4}));
  const auto summary = nn::summary(net, [&] { net.forward(x, x); });
  ASSERT_EQ(summary.rows.size(), 4u);
  EXPECT_EQ(summary.rows[1].name, "first");
  EXPECT_EQ(summary.rows[1].calls, 2);
  EXPECT_EQ(summary.rows[1].output, (Shape{5, 3}));
  EXPECT_EQ(summary.rows[2].name, "second");
  EXPECT_EQ(summary.rows[3].calls, 0);
  EXPECT_EQ(summary.parameters, 15 + 8 + 2);
}

}  // namespace
}  // namespace tandem
