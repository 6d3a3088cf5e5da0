#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/optim/arena.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::SGD;
using optim::SGDGroup;
using optim::SGDOptions;
using testing::array_of;
using testing::expect_same;
using Floats = std::vector<float>;

Tensor parameter(const Floats& values) { return Tensor(array_of(values), true); }
Floats values_of(const Tensor& t) { return t.value().to_vector<float>(); }

SGDOptions options_of(const nlohmann::json& json) {
  return {.lr = json.at("lr"),
          .momentum = json.value("momentum", 0.0),
          .dampening = json.value("dampening", 0.0),
          .weight_decay = json.value("weight_decay", 0.0),
          .nesterov = json.value("nesterov", false)};
}

// Returns how many floats are between two floats of the same sign.
std::int64_t ulps(float a, float b) {
  return std::abs(std::int64_t{std::bit_cast<std::int32_t>(a)} - std::int64_t{std::bit_cast<std::int32_t>(b)});
}

TEST(Sgd, EqualsPyTorch) {
  const testing::Golden golden("sgd.safetensors");
  ASSERT_EQ(golden.cases().size(), 8u);
  for (const auto& [name, options] : golden.cases()) {
    Tensor weight(golden[name + "/initial"].clone(), true);
    SGD sgd({{"weight", weight}}, options_of(options));
    for (int step = 0; step < 5; ++step) {
      weight.set_grad(golden[name + "/gradients"].select(0, step));
      sgd.step();
      const auto expected = golden[name + "/weights"].select(0, step).to_vector<float>(), found = values_of(weight);
      EXPECT_EQ(found, expected) << name << ", step " << step;
    }
    const auto state = sgd.state_dict();
    EXPECT_EQ(state.empty(), !golden.has(name + "/momentum")) << name;
    if (state.empty()) continue;
    EXPECT_EQ(state[0].name, "weight/momentum");
    testing::expect_close(golden[name + "/momentum"], state[0].array, 4 * 0x1p-24, name + " momentum");
  }
}

TEST(Sgd, OneStepIsWithinOneUlpOfPyTorch) {
  const testing::Golden golden("sgd.safetensors");
  for (const auto& [name, options] : golden.cases()) {
    for (int step = 0; step < 5; ++step) {
      // Each step begins with PyTorch's weights. With momentum, it would also need PyTorch's velocities.
      if (step > 0 && options.value("momentum", 0.0) != 0) break;
      Tensor weight((step == 0 ? golden[name + "/initial"] : golden[name + "/weights"].select(0, step - 1)).clone(),
                    true);
      SGD sgd({{"weight", weight}}, options_of(options));
      weight.set_grad(golden[name + "/gradients"].select(0, step));
      sgd.step();
      const auto expected = golden[name + "/weights"].select(0, step).to_vector<float>(), found = values_of(weight);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_LE(ulps(found[i], expected[i]), 1) << name << ", step " << step;
    }
  }
}

TEST(Sgd, ParametersMoveIntoOneBlockAndKeepTheirValues) {
  const Tensor a = parameter({1, 2, 3}), b(testing::counting({2, 2}).transpose(0, 1), true);
  const Array before = a.value();
  const void* const memory = before.raw();
  SGD sgd({{"a", a}, {"b", b}}, {.lr = 1});
  EXPECT_NE(a.value().raw(), memory);
  EXPECT_EQ(a.value().raw(), before.raw()) << "an Array of the value follows it";
  EXPECT_EQ(values_of(a), (Floats{1, 2, 3}));
  EXPECT_EQ(values_of(b), (Floats{0, 2, 1, 3}));
  EXPECT_TRUE(a.is_leaf() && a.requires_grad());
  EXPECT_EQ(b.value().data<float>() - a.value().data<float>(), 16);  // the next 64 bytes
}

TEST(Sgd, ParametersThatWereMadeFromOneArrayPart) {
  const Array start = testing::array_of({1, 2});
  const Tensor a(start, true), b(start, true);
  SGD sgd({{"a", a}, {"b", b}}, {.lr = 1});
  sum(a).backward();
  sgd.step();
  EXPECT_EQ(values_of(a), (Floats{0, 1}));
  EXPECT_EQ(values_of(b), (Floats{1, 2}));
}

TEST(Sgd, ParametersOutliveTheOptimizer) {
  const Tensor a = parameter({1, 2, 3}), b = parameter({4});
  {
    SGD sgd({{"a", a}, {"b", b}}, {.lr = 1, .momentum = 0.9});
    sum(a).backward();
    sgd.step();
  }
  EXPECT_EQ(values_of(a), (Floats{0, 1, 2}));
  EXPECT_EQ(values_of(b), (Floats{4}));
  sum(a * a).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{1, 3, 5}));
}

TEST(Sgd, GroupsHaveOptionsOfTheirOwn) {
  const Tensor a = parameter({1}), b = parameter({1}), c = parameter({1});
  SGD sgd({SGDGroup{{{"a", a}}, {.lr = 1}}, SGDGroup{{{"b", b}, {"c", c}}, {.lr = 0.5, .weight_decay = 1}}});
  EXPECT_EQ(sgd.group_count(), 2);
  const auto step = [&] {
    sgd.zero_grad();
    (a + b + c).backward();
    sgd.step();
  };
  step();
  EXPECT_EQ(values_of(a), (Floats{0}));
  EXPECT_EQ(values_of(b), (Floats{0}));
  sgd.set_lr(2, 0);
  step();
  EXPECT_EQ(values_of(a), (Floats{-2}));
  EXPECT_EQ(values_of(c), (Floats{-0.5}));
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.lr(0), 0.25);
  EXPECT_EQ(sgd.lr(1), 0.25);
}

TEST(Sgd, ParametersWithoutGradientStay) {
  Tensor used = parameter({1}), unused = parameter({2}), frozen(array_of({3}));
  SGD sgd({{"used", used}, {"unused", unused}, {"frozen", frozen}}, {.lr = 1, .momentum = 0.5, .weight_decay = 1});
  sum(used * frozen).backward();
  sgd.step();
  EXPECT_EQ(values_of(used), (Floats{-3}));
  EXPECT_EQ(values_of(unused), (Floats{2}));
  EXPECT_EQ(values_of(frozen), (Floats{3}));
  EXPECT_EQ(sgd.state_dict().size(), 1u);
  // The momentum of `unused` starts with its first gradient, and not earlier.
  used.zero_grad();
  unused.set_grad(array_of({1}));
  sgd.step();
  EXPECT_EQ(values_of(used), (Floats{-3}));
  EXPECT_EQ(values_of(unused), (Floats{-1}));  // 2 - (1 + 2)
  EXPECT_EQ(sgd.state_dict().size(), 2u);
}

TEST(Sgd, GradientsAreOnlyRead) {
  Tensor a = parameter({1, 2});
  SGD sgd({{"a", a}}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  a.set_grad(array_of({3, 4}));
  const auto version = a.grad().storage()->version();
  sgd.step();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{3, 4}));
  EXPECT_EQ(a.grad().storage()->version(), version);
}

TEST(Sgd, GradientsMayHaveAnyStrides) {
  Tensor a(testing::counting({2, 3}), true);
  SGD sgd({{"a", a}}, {.lr = 1});
  a.set_grad_buffer(testing::strided(ops::zeros({2, 3})));
  a.set_grad(testing::counting({2, 3}));
  sgd.step();
  EXPECT_EQ(values_of(a), (Floats(6, 0)));
}

TEST(Sgd, ZeroGrad) {
  Tensor a = parameter({1}), b = parameter({2});
  SGD sgd({SGDGroup{{{"a", a}}, {}}, SGDGroup{{{"b", b}}, {}}});
  (a * b).backward();
  sgd.zero_grad();
  EXPECT_FALSE(a.grad().defined());
  EXPECT_FALSE(b.grad().defined());
}

TEST(Sgd, AStepIsAnInPlaceChange) {
  const Tensor a = parameter({1}), other = parameter({1});
  SGD sgd({{"a", a}, {"other", other}}, {.lr = 1});
  const Tensor kept = a * a;
  sum(a * 2).backward();
  const Tensor with_other = other * other;
  sgd.step();
  EXPECT_ERROR(kept.backward(), "mul", "SGD::step");
  with_other.backward();  // `other` had no gradient, so it was not written
}

TEST(Sgd, StateGoesRoundAndTrainingContinuesToTheBit) {
  const SGDOptions options{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01};
  const auto step = [](SGD& sgd, Tensor& a, Tensor& b, float g) {
    a.set_grad(array_of({g, -g, 0.3f}));
    b.set_grad(array_of({2 * g}));
    sgd.step();
  };
  Tensor a = parameter({1, 2, 3}), b = parameter({4});
  SGD first({{"a", a}, {"b", b}}, options);
  step(first, a, b, 0.7f);
  step(first, a, b, -0.2f);

  Tensor c(a.value().clone(), true), d(b.value().clone(), true);
  SGD second({{"a", c}, {"b", d}}, options);
  EXPECT_TRUE(second.state_dict().empty());
  auto state = first.state_dict();
  for (auto& [name, array] : state) array = array.clone();
  second.load_state_dict(state);
  for (const float g : {0.4f, 0.1f}) {
    step(first, a, b, g);
    step(second, c, d, g);
  }
  expect_same(a.value(), c.value(), "a");
  expect_same(b.value(), d.value(), "b");
  const auto one = first.state_dict(), two = second.state_dict();
  for (std::size_t i = 0; i < one.size(); ++i) expect_same(one[i].array, two[i].array, one[i].name);
  second.load_state_dict({});  // as before the first step
  EXPECT_TRUE(second.state_dict().empty());
}

TEST(Sgd, StateOfAnotherModelIsAnErrorAndChangesNothing) {
  Tensor a = parameter({1, 2});
  SGD sgd({{"a", a}}, {.lr = 1, .momentum = 0.5});
  a.set_grad(array_of({1, 1}));
  sgd.step();
  EXPECT_ERROR(sgd.load_state_dict({{"a/momentum", array_of({9, 9})}, {"b/momentum", array_of({1})}}), "b/momentum");
  EXPECT_ERROR(sgd.load_state_dict({{"a/momentum", array_of({1, 2, 3})}}), "a/momentum", "(3)", "(2)");
  EXPECT_ERROR(sgd.load_state_dict({{"a", array_of({1, 2})}}), "has a");
  EXPECT_EQ(sgd.state_dict()[0].array.to_vector<float>(), (Floats{1, 1}));
  Tensor b = parameter({1});
  SGD plain({{"b", b}}, {.lr = 1});
  EXPECT_ERROR(plain.load_state_dict({{"b/momentum", array_of({1})}}), "b/momentum", "options");
}

TEST(Sgd, NonsenseIsRefused) {
  const Tensor a = parameter({1});
  EXPECT_ERROR(SGD({{"a", a}}, {.lr = -1}), "lr", "-1");
  EXPECT_ERROR(SGD({{"a", a}}, {.lr = std::nan("")}), "lr", "nan");
  EXPECT_ERROR(SGD({{"a", a}}, {.momentum = -0.1}), "momentum", "-0.1");
  EXPECT_ERROR(SGD({{"a", a}}, {.momentum = 9}), "SGD", "momentum", "at most 1", "9");
  EXPECT_NO_THROW(SGD({{"a", a}}, {.momentum = 1}));
  EXPECT_ERROR(SGD({{"a", a}}, {.dampening = NAN}), "dampening", "nan");
  EXPECT_ERROR(SGD({{"a", a}}, {.weight_decay = INFINITY}), "weight_decay", "inf");
  EXPECT_ERROR(SGD({{"a", a}}, {.nesterov = true}), "nesterov");
  EXPECT_ERROR(SGD({{"a", a}}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), "nesterov", "dampening");
  EXPECT_ERROR(SGD(std::vector<NamedTensor>{}, {}), "a group has no parameters");
  EXPECT_ERROR(SGD({{"a", a}, {"again", a}}, {}), "again", "twice");
  EXPECT_ERROR(SGD({SGDGroup{{{"a", a}}, {}}, SGDGroup{{{"again", a}}, {}}}), "again", "twice");
  EXPECT_ERROR(SGD({{"low", Tensor(ops::ones({1}, DType::bf16), true)}}, {}), "low", "bf16", "f32");
}

TEST(Sgd, LargeParametersGoThroughTheParallelLoop) {
  constexpr std::int64_t n = 100003;
  Tensor a(testing::counting({n}), true);
  SGD sgd({{"a", a}}, {.lr = 1, .momentum = 0.5});
  a.set_grad(ops::ones({n}));
  sgd.step();
  sgd.step();
  const auto found = values_of(a);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(found[i], static_cast<float>(i) - 2.5f);
}

TEST(Arena, ArraysLieAsTheirModels) {
  const Array images = testing::counting({2, 3, 4, 5}).channels_last(), sparse = testing::strided(images);
  const auto arena = optim::arena_like(std::vector{images, sparse});
  EXPECT_EQ(arena[0].strides(), images.strides());
  EXPECT_TRUE(arena[1].is_contiguous());
}

// A channels-last parameter, like the weights of convolutions on a GPU. Gradients may have any layout.
TEST(Sgd, UpdatesParametersInTheirOwnOrderOfMemory) {
  const Array numbers = testing::counting({2, 3, 4, 5}), gradient = testing::counting({2, 3, 4, 5});
  Tensor rows(numbers.clone(), true), images(numbers.channels_last(), true);
  SGD by_rows({{"a", rows}}, {.lr = 0.5, .momentum = 0.5}), by_images({{"a", images}}, {.lr = 0.5, .momentum = 0.5});
  EXPECT_TRUE(images.value().is_channels_last());
  for (const Array& given : {gradient, gradient.channels_last(), testing::strided(gradient)}) {
    rows.set_grad(given);
    images.set_grad_buffer(ops::zeros(given.shape()));  // row-major
    images.set_grad(given);
    by_rows.step();
    by_images.step();
    EXPECT_EQ(values_of(rows), values_of(images));
  }
  EXPECT_TRUE(images.value().is_channels_last());
}

TEST(Arena, ArraysAreAlignedSeparateAndCountedApart) {
  const std::vector<Array> like = {ops::ones({3}), ops::ones({17}), ops::ones({}), Array::empty({0}),
                                   ops::ones({2, 2})};
  auto arena = optim::arena_like(like);
  ASSERT_EQ(arena.size(), like.size());
  for (std::size_t i = 0; i < arena.size(); ++i) {
    EXPECT_EQ(arena[i].shape(), like[i].shape());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena[i].raw()) % 64, 0u);
    arena[i].fill(static_cast<double>(i));
  }
  for (std::size_t i = 0; i < arena.size(); ++i)
    for (const float v : arena[i].to_vector<float>()) EXPECT_EQ(v, i);
  arena[0].fill(7);
  EXPECT_EQ(arena[0].storage()->version(), 2u);
  EXPECT_EQ(arena[1].storage()->version(), 1u);
  EXPECT_TRUE(optim::arena_like({}).empty());
}

}  // namespace
}  // namespace tandem
