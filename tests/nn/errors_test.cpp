// What modules refuse beside what operations do.
#include <tandem/core/ops.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/pooling.h>
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
  EXPECT_ERROR(Linear(3, 2)(Tensor(zeros({1, 3}, DType::f64))), "linear", "f64 and f32", "one dtype");
  EXPECT_ERROR(Conv2d(3, 2, 1)(Tensor(zeros({1, 3, 2, 2}, DType::bf16))), "conv2d", "bf16 and f32", "one dtype");
  EXPECT_ERROR(Conv2d(3, 4, 3)(Tensor(zeros({1, 4, 8, 8}))), "conv2d", "(1, 4, 8, 8)", "(4, 3, 3, 3)");
  EXPECT_ERROR(AdaptiveAvgPool2d(-2)(Tensor(zeros({1, 1, 4, 4}))), "adaptive_avg_pool2d", "-2x-2", "keep_size");
  EXPECT_ERROR(Softmax(5)(Tensor(zeros({2}))), "softmax", "dimension 5");
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
