#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/nn/activations.h>

#include <gtest/gtest.h>

#include "support/arrays.h"

namespace tandem {
namespace {

template <class Layer>
std::vector<float> output(Layer layer) {
  return layer(Tensor(testing::array_of({-1, 0, 2}))).value().template to_vector<float>();
}

TEST(Activations, CallTheirOperation) {
  const Tensor x(testing::array_of({-1, 0, 2}));
  const auto values = [](const Tensor& y) { return y.value().to_vector<float>(); };
  EXPECT_EQ(output(nn::ReLU()), values(relu(x)));
  EXPECT_EQ(output(nn::LeakyReLU(0.3)), values(leaky_relu(x, 0.3)));
  EXPECT_EQ(output(nn::ELU(0.5)), values(elu(x, 0.5)));
  EXPECT_EQ(output(nn::SiLU()), values(silu(x)));
  EXPECT_EQ(output(nn::Hardswish()), values(hardswish(x)));
  EXPECT_EQ(output(nn::Hardsigmoid()), values(hardsigmoid(x)));
  EXPECT_EQ(output(nn::Hardtanh(-0.5, 1.5)), values(hardtanh(x, -0.5, 1.5)));
  EXPECT_EQ(output(nn::ReLU6()), values(relu6(x)));
  EXPECT_EQ(output(nn::Threshold(0.5, 7)), values(threshold(x, 0.5, 7)));
  EXPECT_EQ(output(nn::SELU()), values(selu(x)));
  EXPECT_EQ(output(nn::CELU(0.5)), values(celu(x, 0.5)));
  EXPECT_EQ(output(nn::Mish()), values(mish(x)));
  EXPECT_EQ(output(nn::Softsign()), values(softsign(x)));
  EXPECT_EQ(output(nn::LogSigmoid()), values(logsigmoid(x)));
  EXPECT_EQ(nn::GLU(0)(Tensor(testing::array_of({3, 0}))).value().to_vector<float>(), (std::vector<float>{1.5}));
  EXPECT_EQ(output(nn::GELU(Approximate::tanh)), values(gelu(x, Approximate::tanh)));
  EXPECT_EQ(output(nn::Softplus(2, 3)), values(softplus(x, 2, 3)));
  EXPECT_EQ(output(nn::Sigmoid()), values(sigmoid(x)));
  EXPECT_EQ(output(nn::Tanh()), values(tanh(x)));
}

TEST(Activations, PReLULearnsItsSlope) {
  nn::PReLU layer(2, 0.5);
  ASSERT_EQ(layer.parameters().size(), 1u);
  EXPECT_EQ(layer.parameters()[0].name, "weight");
  const Tensor y = layer(reshape(Tensor(testing::array_of({-2, 3, 4, -6})), {1, 2, 2}));
  EXPECT_EQ(y.value().to_vector<float>(), (std::vector<float>{-1, 3, 4, -3}));
  sum(y).backward();
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), (std::vector<float>{-2, -6}));
}

TEST(Activations, InPlaceOnesWriteOverTheirInput) {
  const Tensor x(testing::array_of({-1, 0, 2}));
  nn::ReLU relu({.inplace = true});
  EXPECT_EQ(relu(x).value().raw(), x.value().raw());
  EXPECT_EQ(x.value().to_vector<float>(), (std::vector<float>{0, 0, 2}));
}

}  // namespace
}  // namespace tandem
