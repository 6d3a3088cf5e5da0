// Errors of modules, in addition to those of operations.
#include <tandem/autograd/anomaly.h>
#include <tandem/core/ops.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/containers.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/recurrent.h>
#include <tandem/nn/sequential.h>
#include <tandem/nn/softmax.h>

#include <gtest/gtest.h>

#include <type_traits>

#include "support/temporary_folder.h"

namespace tandem::nn {
namespace {

TEST(ModuleErrors, FunctionsThatAreNone) {
  Linear layer(2, 2);
  EXPECT_ERROR(layer.apply({}), "apply", "Linear", "empty function");
  EXPECT_ERROR(layer.on_forward({}), "on_forward", "Linear", "empty function");
  EXPECT_ERROR(layer.weight.on_grad_ready({}), "on_grad_ready", "empty function");
}

TEST(ModuleErrors, StatesThatAreNone) {
  Linear layer(2, 2);
  EXPECT_ERROR(layer.load_state_dict({{"weight", Array()}, {"bias", zeros({2})}}), "weight", "undefined");
  EXPECT_ERROR(layer.load_state_dict({{"bias", zeros({2})}, {"bias", zeros({2})}}), "bias", "twice");
}

TEST(ModuleErrors, NameTheOperationAndBothShapes) {
  EXPECT_ERROR(Linear(3, 4)(Tensor(zeros({2, 5}))), "linear", "(2, 5)", "(4, 3)");
  EXPECT_ERROR(Linear(3, 4)(Tensor()), "linear", "undefined");
  static_assert(!std::is_constructible_v<Conv2d, int, int, Conv2dOptions>, "the size of the kernel has no default");
  EXPECT_ERROR(Linear(3, 2)(Tensor(zeros({1, 3}, DType::f64))), "linear", "f64 and f32", "the same dtype");
  EXPECT_ERROR(Conv2d(3, 2, 1)(Tensor(zeros({1, 3, 2, 2}, DType::bf16))), "conv2d", "bf16 and f32", "the same dtype");
  EXPECT_ERROR(Conv2d(3, 4, 3)(Tensor(zeros({1, 4, 8, 8}))), "conv2d", "(1, 4, 8, 8)", "(4, 3, 3, 3)");
  EXPECT_ERROR(AdaptiveAvgPool2d(-2)(Tensor(zeros({1, 1, 4, 4}))), "adaptive_avg_pool2d", "-2x-2", "keep_size");
  EXPECT_ERROR(Softmax(5)(Tensor(zeros({2}))), "softmax", "dimension 5");
}

struct Block : Module {
  Sequential& mlp = add("mlp", Sequential{Linear(4, 8), ReLU(), Linear(8, 4)});
  Tensor forward(const Tensor& x) override { return mlp(x) + x; }
};
struct Blocks : Module {
  ModuleList& blocks = add("blocks", ModuleList());
  GRU& rnn = add("rnn", GRU(4, 4));
  Blocks() {
    for (int i = 0; i < 2; ++i) blocks.push_back(Block());
  }
  Tensor forward(const Tensor& x) override {
    for (std::int64_t i = 0; i < 2; ++i) blocks[i](x);
    return rnn(x).output;
  }
};

TEST(ModuleErrors, NameThePathOfTheModule) {
  Blocks model;
  EXPECT_ERROR(model(Tensor(zeros({2, 5}))), "in blocks.0.mlp.0 (Linear): linear: ");
  dynamic_cast<Block&>(model.blocks[1]).mlp[2].to(DType::f64);
  EXPECT_ERROR(model(Tensor(zeros({2, 4}))), "in blocks.1.mlp.2 (Linear): linear: ");
  dynamic_cast<Block&>(model.blocks[1]).mlp[2].to(DType::f32);
  EXPECT_ERROR(model(Tensor(zeros({2, 3, 4, 4}))), "in rnn (GRU): input must be ");
  const auto message_of = [](auto&& call) -> std::string {
    try {
      call();
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  // A layer that is called directly has no path, and no path remains after a call.
  EXPECT_EQ(message_of([&] { model.rnn(Tensor()); }), "GRU: the input is undefined");
  EXPECT_EQ(message_of([&] { relu(Tensor()); }), "relu: this Tensor is undefined: assign a value to it first");
  // A network within a network is called with both paths, and the error has the whole path.
  Sequential outer;
  outer.push_back(Blocks());
  EXPECT_ERROR(outer(Tensor(zeros({2, 5}))), "in 0.blocks.0.mlp.0 (Linear): linear: ");
  // Of two networks, the error names the one that contains the module.
  Linear other(4, 5);
  other.on_forward([&](Module&, const Tensor& output) { model(output); });
  EXPECT_ERROR(other(Tensor(zeros({2, 4}))), "in blocks.0.mlp.0 (Linear): linear: ");
}

struct Logarithm : Module {
  Linear& head = add("head", Linear(2, 2));
  Sequential& root = add("root", Sequential{[](const Tensor& x) { return sqrt(x); }});
  Tensor forward(const Tensor& x) override { return root(head(x) * 0); }
};

TEST(ModuleErrors, AnAnomalyIsOfAModule) {
  Logarithm model;
  const DetectAnomaly detect;
  EXPECT_ERROR(sum(model(Tensor(ones({1, 2})))).backward(), "in root.0 (",
               "in the gradient that sqrt gives its input 0", "inf at (0, 0)");
  model.head.weight.set_value(full({2, 2}, 1e38));
  EXPECT_ERROR(model(full({1, 2}, 1e38)), "in head (Linear): ", "in the result of linear", "inf at (0, 0)");
}

TEST(ModuleErrors, ABatchNormThatFailsKeepsItsStatistics) {
  BatchNorm2d norm(2);
  norm.weight.move_to(DType::f64);
  EXPECT_ERROR(norm(Tensor(ops::rand({2, 2, 3, 3}))), "batch_norm", "weight", "f32", "f64");
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), std::vector<float>({0, 0}));
  EXPECT_EQ(norm.running_var.value().to_vector<float>(), std::vector<float>({1, 1}));
}

}  // namespace
}  // namespace tandem::nn
