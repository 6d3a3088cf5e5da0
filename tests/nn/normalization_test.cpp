// Normalisations of each sample, with numbers whose mean and variance are whole.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/nn/normalization.h>

#include <gtest/gtest.h>

#include "nn/names.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::expect_close;
using testing::Names;
using testing::names_of;

// Expects that the layer computes `expected` from x, in training and in evaluation, and that its parameters get
// gradients.
void expect_makes(nn::Module& layer, const Array& x, const std::vector<float>& expected) {
  for (const bool training : {true, false}) {
    layer.train(training);
    expect_close(Array::from(expected, x.shape()), layer(x).value(), 1e-6, training ? "in training" : "in evaluation");
  }
  const Tensor in(x, true);
  sum(layer(in)).backward();
  EXPECT_EQ(in.grad().shape(), x.shape());
  for (const auto& [name, parameter] : layer.parameters())
    EXPECT_EQ(parameter.grad().shape(), parameter.shape()) << name;
  EXPECT_TRUE(layer.buffers().empty());
}

void set(Tensor& parameter, const std::vector<float>& values) {
  parameter.set_value(Array::from(values, parameter.shape()));
}

TEST(LayerNorm, NormalizesTheLastDimensions) {
  nn::LayerNorm rows(2, {.eps = 0});
  expect_makes(rows, array_of({0, 2, 4, 0}, {2, 2}), {-1, 1, 1, -1});
  set(rows.weight, {10, 100});
  set(rows.bias, {1, 2});
  expect_makes(rows, array_of({0, 2, 4, 0}, {2, 2}), {-9, 102, 11, -98});
  nn::LayerNorm all({2, 2}, {.eps = 0});
  expect_makes(all, array_of({0, 2, 2, 0, 1, 5, 5, 1}, {2, 2, 2}), {-1, 1, 1, -1, -1, 1, 1, -1});
  nn::LayerNorm damped(2, {.eps = 3});
  expect_makes(damped, array_of({0, 2}, {1, 2}), {-0.5f, 0.5f});
}

TEST(LayerNorm, StartsAsPyTorchsAndLeavesOutWhatOptionsSay) {
  const nn::LayerNorm norm({2, 3});
  EXPECT_EQ(names_of(norm.parameters()), (Names{"weight", "bias"}));
  EXPECT_EQ(norm.weight.shape(), (Shape{2, 3}));
  EXPECT_EQ(norm.weight.value().to_vector<float>(), std::vector<float>(6, 1));
  EXPECT_EQ(norm.bias.value().to_vector<float>(), std::vector<float>(6, 0));
  nn::LayerNorm no_bias(2, {.eps = 0, .bias = false}), plain(2, {.eps = 0, .elementwise_affine = false});
  EXPECT_EQ(names_of(no_bias.parameters()), (Names{"weight"}));
  EXPECT_EQ(names_of(plain.parameters()), (Names{}));
  set(no_bias.weight, {1, 3});
  expect_makes(no_bias, array_of({0, 2}, {1, 2}), {-1, 3});
  expect_makes(plain, array_of({0, 2}, {1, 2}), {-1, 1});
  // The default eps is 1e-5, so numbers as small as these hardly grow.
  const auto small = nn::LayerNorm(2)(array_of({-1e-3f, 1e-3f})).value().to_vector<float>();
  EXPECT_NEAR(small[1], 1e-3 / std::sqrt(1e-6 + 1e-5), 1e-5);
}

TEST(RMSNorm, DividesByTheRootOfTheMeanSquare) {
  nn::RMSNorm norm(2, {.eps = 0});
  EXPECT_EQ(names_of(norm.parameters()), (Names{"weight"}));
  expect_makes(norm, array_of({1, 7, -7, 1}, {2, 2}), {0.2f, 1.4f, -1.4f, 0.2f});
  set(norm.weight, {10, 100});
  expect_makes(norm, array_of({1, 7}, {1, 2}), {2, 140});
  nn::RMSNorm plain(2, {.eps = 75, .elementwise_affine = false});
  EXPECT_EQ(names_of(plain.parameters()), (Names{}));
  expect_makes(plain, array_of({1, 7}, {1, 2}), {0.1f, 0.7f});
}

TEST(GroupNorm, NormalizesGroupsOfChannels) {
  const Array x = array_of({0, 2, 2, 0, 1, 5, 5, 1}, {1, 4, 2});
  nn::GroupNorm two(2, 4, {.eps = 0});
  EXPECT_EQ(names_of(two.parameters()), (Names{"weight", "bias"}));
  EXPECT_EQ(two.weight.value().to_vector<float>(), std::vector<float>(4, 1));
  EXPECT_EQ(two.bias.value().to_vector<float>(), std::vector<float>(4, 0));
  expect_makes(two, x, {-1, 1, 1, -1, -1, 1, 1, -1});
  set(two.weight, {1, 2, 3, 4});
  set(two.bias, {0, 0, 0, 10});
  expect_makes(two, x, {-1, 1, 2, -2, -3, 3, 14, 6});
  expect_makes(two, x.reshape({1, 4, 2, 1}), {-1, 1, 2, -2, -3, 3, 14, 6});
  // All channels together have mean 2 and mean square 7.5.
  nn::GroupNorm one(1, 4, {.eps = 0, .affine = false});
  EXPECT_EQ(names_of(one.parameters()), (Names{}));
  const float d = 1 / std::sqrt(3.5f);
  expect_makes(one, x, {-2 * d, 0, 0, -2 * d, -d, 3 * d, 3 * d, -d});
}

TEST(InstanceNorm2d, NormalizesEachChannelOfEachImage) {
  const Array x = array_of({0, 2, 5, 1, 10, 10, -3, 3}, {2, 2, 1, 2});
  nn::InstanceNorm2d norm(2);
  EXPECT_EQ(names_of(norm.parameters()), (Names{}));
  const float one = 1 / std::sqrt(1 + 1e-5f), two = 2 / std::sqrt(4 + 1e-5f), three = 3 / std::sqrt(9 + 1e-5f);
  expect_makes(norm, x, {-one, one, two, -two, 0, 0, -three, three});
  nn::InstanceNorm2d affine(2, {.affine = true});
  EXPECT_EQ(names_of(affine.parameters()), (Names{"weight", "bias"}));
  set(affine.weight, {1, 10});
  set(affine.bias, {0, 5});
  expect_makes(affine, x, {-one, one, 10 * two + 5, -10 * two + 5, 0, 0, -10 * three + 5, 10 * three + 5});
}

TEST(Normalizations, RefuseNonsense) {
  EXPECT_ERROR(nn::LayerNorm({}), "LayerNorm", "at least one dimension");
  EXPECT_ERROR(nn::RMSNorm({}), "RMSNorm", "at least one dimension");
  EXPECT_ERROR(nn::GroupNorm(3, 4), "GroupNorm", "4 channels", "3 groups");
  EXPECT_ERROR(nn::GroupNorm(0, 4), "GroupNorm", "0 groups");
  EXPECT_ERROR(nn::InstanceNorm2d(0), "InstanceNorm2d", "got 0");
  EXPECT_ERROR(nn::LayerNorm(3)(ops::ones({2, 4})), "layer_norm", "(2, 4)", "(3)");
  EXPECT_ERROR(nn::RMSNorm(3)(ops::ones({2, 4})), "rms_norm", "(2, 4)", "(3)");
  EXPECT_ERROR(nn::GroupNorm(2, 4)(ops::ones({2, 6, 3})), "group_norm", "(6)", "(4)");
  EXPECT_ERROR(nn::InstanceNorm2d(2)(ops::ones({2, 3, 4, 4})), "InstanceNorm2d", "(N, 2, H, W)", "(2, 3, 4, 4)");
}

}  // namespace
}  // namespace tandem
