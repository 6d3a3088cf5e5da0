// Tests that only RMSprop and Adagrad need. optimizers_test.cpp tests them with all other optimizers.
#include <tandem/core/ops.h>
#include <tandem/optim/adagrad.h>
#include <tandem/optim/rmsprop.h>

#include <gtest/gtest.h>

#include <cmath>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::Adagrad;
using optim::RMSprop;
using testing::array_of;

Tensor parameter(const std::vector<float>& values) { return Tensor(array_of(values), true); }

TEST(RMSprop, OfEqualGradientsIsNoNaN) {
  Tensor a = parameter({1, 1, 1});
  RMSprop rmsprop({{"a", a}}, {.lr = 1e-9, .alpha = 0.5, .centered = true});
  for (int step = 0; step < 200; ++step) {
    a.set_grad(array_of({0.1f, 0.3f, 0.7f}));
    rmsprop.step();
  }
  for (const float v : a.value().to_vector<float>()) EXPECT_TRUE(std::isfinite(v)) << v;
}

TEST(RMSprop, RefusesNonsense) {
  const Tensor a = parameter({1});
  EXPECT_ERROR(RMSprop({{"a", a}}, {.alpha = -1}), "RMSprop", "alpha");
  EXPECT_ERROR(RMSprop({{"a", a}}, {.alpha = 1.5}), "RMSprop", "alpha", "at most 1", "1.5");
  EXPECT_ERROR(RMSprop({{"a", a}}, {.momentum = -1}), "momentum");
  EXPECT_ERROR(RMSprop({{"a", a}}, {.momentum = 9}), "momentum", "at most 1", "9");
}

TEST(Adagrad, RefusesNonsense) {
  const Tensor a = parameter({1});
  EXPECT_ERROR(Adagrad({{"a", a}}, {.initial_accumulator_value = -1}), "Adagrad", "initial_accumulator_value");
  EXPECT_ERROR(Adagrad(std::vector<optim::AdagradGroup>{{{}, {}}}), "a group has no parameters");
  Adagrad adagrad({{"a", a}}, {});
  EXPECT_ERROR(adagrad.set_momentum(0.5, 0), "Adagrad", "no momentum");
  EXPECT_ERROR(adagrad.momentum(), "Adagrad", "no momentum");
}

}  // namespace
}  // namespace tandem
