#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/make_optimizer.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::Adam;
using optim::AdamW;
using testing::array_of;
using testing::expect_same;
using Floats = std::vector<float>;

Tensor parameter(const Floats& values) { return Tensor(array_of(values), true); }
Floats values_of(const Array& a) { return a.to_vector<float>(); }

// The tolerance is relative to the largest number of the array, because a number near zero has no exact digits.
void expect_near(const Array& expected, const Array& found, double tolerance, const std::string& what) {
  ASSERT_EQ(expected.shape(), found.shape()) << what;
  const auto e = values_of(expected), f = values_of(found);
  float largest = 0;
  for (const float v : e) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < e.size(); ++i) EXPECT_NEAR(f[i], e[i], tolerance * largest) << what << ", element " << i;
}

TEST(Optimizers, EqualPyTorchForFiftySteps) {
  const testing::Golden golden("optimizers.safetensors");
  int count = 0;
  for (const auto& [name, options] : golden.cases()) {
    if (!options.contains("kind")) continue;
    Tensor parameters[2] = {Tensor(golden[name + "/initial0"].clone(), true),
                            Tensor(golden[name + "/initial1"].clone(), true)};
    const auto optimizer =
        testing::make_optimizer(options.at("kind"), {{"p0", parameters[0]}, {"p1", parameters[1]}}, options);
    if (!optimizer) continue;
    ++count;
    const Array& gradients = golden[name + "/gradients"];
    for (int step = 0; step < 50; ++step) {
      parameters[0].set_grad(gradients.select(0, step).select(0, 0));
      parameters[1].set_grad(step % 3 == 0 ? Array() : gradients.select(0, step).select(0, 1));
      optimizer->step();
      for (const std::string p : {"0", "1"})
        expect_near(golden[name + "/weights" + p].select(0, step), parameters[p == "1"].value(), 1e-6,
                    name + ", parameter " + p + ", step " + std::to_string(step));
    }
    std::size_t slots = 0;
    for (const auto& [key, value] : golden.arrays()) slots += key.rfind(name + "/state", 0) == 0;
    const auto state = optimizer->state_dict();
    EXPECT_EQ(state.size(), slots) << name;
    for (const auto& [key, value] : state)
      expect_near(golden[name + "/state" + key.substr(1)], value, 1e-6, name + ", state " + key);
  }
#ifdef TANDEM_WITHOUT_ANNEXES
  EXPECT_EQ(count, 12);
#else
  EXPECT_EQ(count, 20);
#endif
}

// Returns every optimizer, with options that use all of its state.
std::vector<std::pair<std::string, nlohmann::json>> all_optimizers() {
  return {{"SGD", {{"lr", 0.1}, {"momentum", 0.9}}},
          {"Adam", {{"lr", 0.1}, {"amsgrad", true}, {"weight_decay", 0.1}}},
#ifndef TANDEM_WITHOUT_ANNEXES
          {"RMSprop", {{"lr", 0.1}, {"momentum", 0.9}, {"centered", true}}},
          {"Adagrad", {{"lr", 0.1}, {"lr_decay", 0.1}, {"initial_accumulator_value", 0.5}}},
#endif
          {"AdamW", {{"lr", 0.1}}}};
}

TEST(Optimizers, StateGoesRoundAndTrainingContinuesToTheBit) {
  for (const auto& [kind, options] : all_optimizers()) {
    SCOPED_TRACE(kind);
    Tensor a = parameter({1, 2, 3}), b = parameter({4}), never = parameter({5});
    const auto first = testing::make_optimizer(kind, {{"a", a}, {"b", b}, {"never", never}}, options);
    const auto step = [](optim::Optimizer& optimizer, Tensor& x, Tensor& y, float g) {
      x.set_grad(array_of({g, -g, 0.3f}));
      y.set_grad(g > 0.5f ? array_of({2 * g}) : Array());
      optimizer.step();
    };
    for (const float g : {0.7f, -0.2f, 0.6f, 0.1f}) step(*first, a, b, g);
    Tensor c(a.value().clone(), true), d(b.value().clone(), true), other(never.value().clone(), true);
    const auto second = testing::make_optimizer(kind, {{"a", c}, {"b", d}, {"never", other}}, options);
    EXPECT_TRUE(second->state_dict().empty());
    // The step before loading must leave no trace.
    const Array before = c.value().clone();
    step(*second, c, d, 0.9f);
    c.set_value(before);
    d.set_value(b.value().clone());
    auto state = first->state_dict();
    for (auto& [name, array] : state) {
      EXPECT_NE(name.substr(0, 5), "never");
      array = array.clone();
    }
    second->load_state_dict(state);
    for (const float g : {0.4f, 0.8f}) {
      step(*first, a, b, g);
      step(*second, c, d, g);
    }
    expect_same(a.value(), c.value(), "a");
    expect_same(b.value(), d.value(), "b");
    const auto one = first->state_dict(), two = second->state_dict();
    ASSERT_EQ(one.size(), two.size());
    for (std::size_t i = 0; i < one.size(); ++i) expect_same(one[i].array, two[i].array, one[i].name);
    second->load_state_dict({});  // as before the first step
    EXPECT_TRUE(second->state_dict().empty());
  }
}

TEST(Optimizers, WhatDoesNotFitIsAnErrorAndChangesNothing) {
  Tensor a = parameter({1, 2}), b = parameter({1});
  Adam adam({{"a", a}, {"b", b}}, {});
  a.set_grad(array_of({1, 1}));
  adam.step();
  auto state = adam.state_dict();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[0].name, "a/exp_avg");
  EXPECT_EQ(state[1].name, "a/exp_avg_sq");
  EXPECT_EQ(state[2].name, "a/step");
  for (auto& entry : state) entry.array = ops::full(entry.array.shape(), 9);
  auto incomplete = state;
  incomplete.pop_back();
  EXPECT_ERROR(adam.load_state_dict(incomplete), "Adam", "no a/step");
  auto unknown = state;
  unknown.push_back({"c/step", ops::scalar(1)});
  EXPECT_ERROR(adam.load_state_dict(unknown), "Adam", "c/step", "no such parameter");
  auto amsgrad = state;
  amsgrad.push_back({"a/max_exp_avg_sq", ops::ones({2})});
  EXPECT_ERROR(adam.load_state_dict(amsgrad), "a/max_exp_avg_sq", "options");
  auto reshaped = state;
  reshaped[0].array = ops::ones({3});
  EXPECT_ERROR(adam.load_state_dict(reshaped), "a/exp_avg", "(3)", "(2)");
  EXPECT_EQ(adam.state_dict()[2].array.item(), 1);
  adam.load_state_dict(state);
  EXPECT_EQ(adam.state_dict()[2].array.item(), 9);
}

TEST(Optimizers, GroupsHaveOptionsOfTheirOwn) {
  Tensor a = parameter({1}), b = parameter({1});
  AdamW adam({optim::AdamWGroup{{{"a", a}}, {.lr = 0.1, .weight_decay = 0}},
              optim::AdamWGroup{{{"b", b}}, {.lr = 0.5, .weight_decay = 0.5, .amsgrad = true}}});
  a.set_grad(array_of({2}));
  b.set_grad(array_of({-2}));
  adam.step();
  EXPECT_NEAR(a.item(), 0.9, 1e-6);
  EXPECT_NEAR(b.item(), 1.25, 1e-6);  // 1 * (1 - 0.25) + 0.5
  EXPECT_EQ(adam.state_dict().size(), 7u);
  adam.set_lr(0.25, 1);
  EXPECT_EQ(adam.lr(0), 0.1);
  EXPECT_EQ(adam.lr(1), 0.25);
  adam.set_momentum(0.7, 0);
  EXPECT_EQ(adam.options(0).betas[0], 0.7);
  EXPECT_EQ(adam.momentum(0), 0.7);
}

TEST(Optimizers, MomentumMayBeginLater) {
  Tensor a = parameter({1});
  optim::SGD sgd({{"a", a}}, {.lr = 1, .dampening = 0.5});
  a.set_grad(array_of({1}));
  sgd.step();
  EXPECT_TRUE(sgd.state_dict().empty() || sgd.state_dict().size() == 0);
  sgd.set_momentum(0.5, 0);
  sgd.step();  // the velocity begins as the gradient
  EXPECT_EQ(values_of(a.value()), Floats{-1});
  sgd.step();  // 0.5 * 1 + 0.5 * 1
  EXPECT_EQ(values_of(a.value()), Floats{-2});
}

TEST(Optimizers, NaNGradientsShow) {
  for (const auto& [kind, options] : all_optimizers()) {
    Tensor a = parameter({1, 2});
    const auto optimizer = testing::make_optimizer(kind, {{"a", a}}, options);
    for (int step = 0; step < 2; ++step) {
      a.set_grad(array_of({step == 0 ? std::nanf("") : 1, 1}));
      optimizer->step();
    }
    EXPECT_TRUE(std::isnan(values_of(a.value())[0])) << kind;
    EXPECT_FALSE(std::isnan(values_of(a.value())[1])) << kind;
  }
}

TEST(Optimizers, AStepWithoutAGradientIsAWarningOnce) {
  const Tensor w(ops::ones({2}), true);
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  const auto said = [&] {
    ::testing::internal::CaptureStderr();
    optimizer.step();
    return ::testing::internal::GetCapturedStderr();
  };
  sum(w).backward();
  EXPECT_EQ(said(), "");
  optimizer.zero_grad();
  EXPECT_EQ(said().find("warning: SGD::step: no parameter has a gradient"), 0u);
  EXPECT_EQ(said(), "");
}

TEST(Optimizers, NonsenseIsRefused) {
  const Tensor a = parameter({1});
  EXPECT_ERROR(Adam({{"a", a}}, {.lr = -1}), "Adam", "lr", "-1");
  EXPECT_ERROR(Adam({{"a", a}}, {.betas = {0.9, 1.0}}), "betas", "1");
  EXPECT_ERROR(Adam({{"a", a}}, {.betas = {-0.1, 0.9}}), "betas", "-0.1");
  EXPECT_ERROR(AdamW({{"a", a}}, {.eps = -1}), "AdamW", "eps");
  EXPECT_ERROR(AdamW({{"a", a}, {"again", a}}, {}), "AdamW", "again", "twice");
  Adam adam({{"a", a}}, {});
  EXPECT_ERROR(adam.set_group_options(0, {{"momentum", 0.5}}), "Adam", "no option momentum");
  EXPECT_ERROR(adam.set_group_options(0, {{"lr", true}}), "lr", "type");
  EXPECT_ERROR(adam.set_group_options(0, {{"lr", -2.0}}), "lr", "-2");
  EXPECT_EQ(adam.lr(), 1e-3);
}

TEST(Optimizers, LargeParametersGoThroughTheParallelLoop) {
  constexpr std::int64_t n = 100003;
  for (const auto& [kind, options] : all_optimizers()) {
    Tensor large(testing::counting({n}), true), last(ops::full({1}, n - 1), true);
    const auto all = testing::make_optimizer(kind, {{"large", large}}, options);
    const auto one = testing::make_optimizer(kind, {{"last", last}}, options);
    for (int step = 0; step < 2; ++step) {
      large.set_grad(ops::full({n}, 0.5));
      last.set_grad(ops::full({1}, 0.5));
      all->step();
      one->step();
    }
    EXPECT_FLOAT_EQ(values_of(large.value()).back(), last.value().item()) << kind;
  }
}

}  // namespace
}  // namespace tandem
