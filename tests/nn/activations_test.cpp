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
  EXPECT_EQ(output(nn::GELU(Approximate::tanh)), values(gelu(x, Approximate::tanh)));
  EXPECT_EQ(output(nn::Softplus(2, 3)), values(softplus(x, 2, 3)));
  EXPECT_EQ(output(nn::Sigmoid()), values(sigmoid(x)));
  EXPECT_EQ(output(nn::Tanh()), values(tanh(x)));
}

TEST(Activations, InPlaceOnesWriteOverTheirInput) {
  const Tensor x(testing::array_of({-1, 0, 2}));
  nn::ReLU relu(true);
  EXPECT_EQ(relu(x).value().raw(), x.value().raw());
  EXPECT_EQ(x.value().to_vector<float>(), (std::vector<float>{0, 0, 2}));
}

}  // namespace
}  // namespace tandem
