// Operations that write gradients directly to their final memory.
#include <tandem/autograd/functions.h>
#include <tandem/autograd/gradient_place.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <utility>

#include "support/arrays.h"
#include "support/small_training.h"

namespace tandem {
namespace {

using autograd::Gradients;
using testing::noise_array;

// 2 x. Records whether backward got a place for the gradient, and uses it.
Tensor doubled(const Tensor& x, bool& had_place) {
  return autograd::record("doubled", {x}, ops::map(functors::Affine{2, 0}, x.value()),
                          [&had_place](const Array& grad, autograd::Needs) -> Gradients {
                            Array place = autograd::gradient_place(0);
                            had_place = place.defined();
                            EXPECT_FALSE(autograd::gradient_place(1).defined());
                            const Array value = ops::map(functors::Affine{2, 0}, grad);
                            if (!had_place) return {value};
                            place.copy_from(value);
                            return {place};
                          });
}

// 2 x. Records whether backward could take the existing gradient, and adds to it.
Tensor doubled_into(const Tensor& x, bool& could_take) {
  return autograd::record("doubled_into", {x}, ops::map(functors::Affine{2, 0}, x.value()),
                          [&could_take](const Array& grad, autograd::Needs) -> Gradients {
                            EXPECT_FALSE(autograd::take_gradient(1).defined());
                            Array sum = autograd::take_gradient(0);
                            could_take = sum.defined();
                            const Array value = ops::map(functors::Affine{2, 0}, grad);
                            if (!could_take) return {value};
                            EXPECT_FALSE(autograd::take_gradient(0).defined()) << "it was handed over";
                            ops::add_(sum, value);
                            return {sum};
                          });
}

TEST(GradientPlace, IsTheGradientSoFarOfAnInputWithSeveralUses) {
  bool could_take = true;
  Tensor leaf(ops::ones({3}), true);
  sum(doubled_into(leaf, could_take)).backward();
  EXPECT_FALSE(could_take) << "a leaf";
  leaf.zero_grad();
  const auto gradient = [&](const Tensor& loss) {
    loss.backward();
    const auto found = leaf.grad().to_vector<float>();
    leaf.zero_grad();
    return found;
  };

  const Tensor x = leaf * 3;
  const Tensor first = doubled_into(x, could_take);
  EXPECT_EQ(gradient(sum(first)), std::vector<float>(3, 6));
  EXPECT_FALSE(could_take) << "no other gradient has come";

  // The most recently created operation runs first.
  const Tensor again = leaf * 3;
  const Tensor early = doubled_into(again, could_take);
  bool late_could_take = true;
  const Tensor late = doubled_into(again, late_could_take);
  EXPECT_EQ(gradient(sum(early) + sum(late) + sum(again * 5)), std::vector<float>(3, 3 * (2 + 2 + 5)));
  EXPECT_TRUE(could_take);
  EXPECT_TRUE(late_could_take);

  // Both operands of a sum get the same Array as their gradient, so neither may overwrite it.
  const Tensor shared = leaf * 3, other = leaf * 7;
  const Tensor used = doubled_into(shared, could_take);
  EXPECT_EQ(gradient(sum(used) + sum(shared + other)), std::vector<float>(3, 3 * (2 + 1) + 7));
  EXPECT_FALSE(could_take);
  EXPECT_FALSE(autograd::take_gradient(0).defined()) << "outside of a backward pass";
}

TEST(GradientPlace, IsTheBufferOfALeafThatGetsOneGradient) {
  bool had_place = false;
  Tensor x(ops::ones({3}), true);
  sum(doubled(x, had_place)).backward();
  EXPECT_FALSE(had_place) << "no buffer";
  x.zero_grad();
  const Array buffer = ops::full({3}, 7);
  x.set_grad_buffer(buffer);
  x.zero_grad();
  sum(doubled(x, had_place)).backward();
  EXPECT_TRUE(had_place);
  EXPECT_EQ(buffer.to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_EQ(x.grad().raw(), buffer.raw());
  sum(doubled(x, had_place)).backward();
  EXPECT_FALSE(had_place) << "the second gradient is added to the first";
  EXPECT_EQ(buffer.to_vector<float>(), std::vector<float>(3, 4));
  x.zero_grad();
  bool other = false;
  sum(doubled(x, had_place) * doubled(x, other)).backward();
  EXPECT_FALSE(had_place || other) << "two uses";
  EXPECT_EQ(buffer.to_vector<float>(), std::vector<float>(3, 8));
  x.zero_grad();
  EXPECT_EQ(autograd::grad({sum(doubled(x, had_place))}, {x})[0].to_vector<float>(), std::vector<float>(3, 2));
  EXPECT_FALSE(had_place) << "grad() writes to no leaf";
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(autograd::gradient_place(0).defined()) << "outside of a backward pass";
}

TEST(GradientPlace, IsDense) {
  bool had_place = false;
  Tensor x(ops::ones({3}), true);
  x.set_grad_buffer(testing::strided(ops::zeros({3})));
  sum(doubled(x, had_place)).backward();
  EXPECT_FALSE(had_place);
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 2));
}

TEST(GradientPlace, CountsAsAWrite) {
  Tensor x(ops::ones({3}), true);
  const Array buffer = ops::zeros({3});
  x.set_grad_buffer(buffer);
  x.zero_grad();
  bool had_place = false;
  const auto before = buffer.storage()->version();
  sum(doubled(x, had_place)).backward();
  EXPECT_GT(buffer.storage()->version(), before);
}

// The gradients of these layers, with row-major and channels-last buffers, equal those without buffers.
TEST(GradientPlace, ServesConvolutionsLinearLayersAndBatchNorm) {
  manual_seed(4);
  const Tensor x(noise_array({3, 2, 6, 6}, 0));
  const std::vector<Array> values{noise_array({4, 2, 3, 3}, 100), noise_array({4}, 200),     noise_array({4}, 300),
                                  noise_array({4}, 400),          noise_array({5, 16}, 500), noise_array({5}, 600)};
  const auto gradients = [&](int buffers) {
    std::vector<Tensor> parameters;
    for (const Array& value : values) {
      parameters.emplace_back(value.clone(), true);
      if (buffers == 0) continue;
      const bool turned = buffers == 2 && value.ndim() == 4;
      parameters.back().set_grad_buffer(turned ? Array::empty_channels_last(value.shape())
                                               : ops::full(value.shape(), 9));
      parameters.back().zero_grad();
    }
    BatchNormState state;
    state.training = true;
    const Tensor image = batch_norm(conv2d(x, parameters[0], parameters[1], {}), parameters[2], parameters[3], state,
                                    {.relu = true, .max_pool_2x2 = true});
    const Tensor y = linear(flatten(image, 1), parameters[4], parameters[5]);
    sum(y * y).backward();
    std::vector<std::vector<float>> all;
    for (const Tensor& p : parameters) all.push_back(p.grad().to_vector<float>());
    return all;
  };
  const auto expected = gradients(0);
  EXPECT_EQ(gradients(1), expected);
  EXPECT_EQ(gradients(2), expected);
}

}  // namespace
}  // namespace tandem
