#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::GradScaler;
using optim::SGD;
using testing::array_of;
using Floats = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor parameter(const Floats& values) { return Tensor(array_of(values), true); }
Floats values_of(const Array& a) { return a.to_vector<float>(); }

TEST(GradScaler, EqualsPyTorch) {
  const testing::Golden golden("grad_scaler.safetensors");
  ASSERT_EQ(golden.cases().size(), 5u);
  for (const auto& [name, options] : golden.cases()) {
    Tensor weight(golden[name + "/initial"].clone(), true);
    SGD sgd({{"weight", weight}}, {.lr = 0.1, .momentum = 0.9});
    GradScaler scaler({.init_scale = options.at("init_scale"),
                       .growth_factor = options.value("growth_factor", 2.0),
                       .backoff_factor = options.value("backoff_factor", 0.5),
                       .growth_interval = options.at("growth_interval")});
    const auto scales = values_of(golden[name + "/scales"]), trackers = values_of(golden[name + "/trackers"]);
    for (int step = 0; step < 10; ++step) {
      weight.set_grad(golden[name + "/gradients"].select(0, step));
      scaler.step(sgd);
      scaler.update();
      EXPECT_EQ(scaler.scale(), scales[step]) << name << ", step " << step;
      EXPECT_EQ(scaler.state_dict()[4].array.item(), trackers[step]) << name << ", step " << step;
      const auto expected = values_of(golden[name + "/weights"].select(0, step)), found = values_of(weight.value());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], (step + 1) * 0x1p-22f) << name << ", step " << step << ", element " << i;
    }
  }
}

TEST(GradScaler, AnOverflowSkipsTheStepOfEveryParameter) {
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    Tensor a = parameter({1, 2, 3}), b = parameter({4});
    SGD sgd({{"a", a}, {"b", b}}, {.lr = 1, .momentum = 0.9});
    GradScaler scaler;
    a.set_grad(array_of({1, bad, 1}));
    b.set_grad(array_of({1}));
    EXPECT_FALSE(scaler.step(sgd));
    scaler.update();
    EXPECT_EQ(values_of(a.value()), Floats({1, 2, 3}));
    EXPECT_EQ(values_of(b.value()), Floats({4}));
    EXPECT_TRUE(sgd.state_dict().empty()) << "the momentum has begun";
    EXPECT_EQ(scaler.scale(), 32768);
  }
}

TEST(GradScaler, GradientsOfOppositeSignsDoNotHideEachOther) {
  Tensor a = parameter({0, 0});
  SGD sgd({{"a", a}}, {.lr = 1});
  GradScaler scaler;
  a.set_grad(array_of({infinity, -infinity}));
  EXPECT_FALSE(scaler.step(sgd));
}

TEST(GradScaler, LargeFiniteGradientsAreNoOverflow) {
  const float most = std::numeric_limits<float>::max();
  Tensor a = parameter({0, 0, 0});
  SGD sgd({{"a", a}}, {.lr = 0});
  GradScaler scaler;
  a.set_grad(array_of({most, most, most}));
  EXPECT_TRUE(scaler.step(sgd));
}

TEST(GradScaler, UnscaleGivesTheTrueSizeOnce) {
  Tensor a = parameter({1, 1});
  SGD sgd({{"a", a}}, {.lr = 1});
  GradScaler scaler({.init_scale = 4});
  scaler.scale(sum(a * Tensor(array_of({2, 3})))).backward();
  EXPECT_EQ(values_of(a.grad()), Floats({8, 12}));
  scaler.unscale_(sgd);
  EXPECT_EQ(values_of(a.grad()), Floats({2, 3}));
  EXPECT_ERROR(scaler.unscale_(sgd), "already", "update()");
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_EQ(values_of(a.value()), Floats({-1, -2}));
  EXPECT_ERROR(scaler.step(sgd), "update()");
  scaler.update();
  EXPECT_ERROR(scaler.update(), "no optimizer");
}

TEST(GradScaler, ScaledF16GradientsKeepWhatUnscaledOnesLose) {
  // Each product is below f16's smallest number. With a scaled loss, it is above.
  const auto gradient = [](bool enabled) {
    Tensor w(ops::full({1, 1}, 1), true);
    SGD sgd({{"w", w}}, {.lr = 0});
    GradScaler scaler({.enabled = enabled});
    const Autocast autocast(DType::f16);
    const Tensor x(ops::full({1, 1}, 0x1p-12));
    scaler.scale(sum(cast(matmul(x, w), DType::f32)) * 0x1p-16).backward();
    scaler.unscale_(sgd);
    return w.grad().item();
  };
  EXPECT_EQ(gradient(false), 0);
  EXPECT_EQ(gradient(true), 0x1p-28);
}

TEST(GradScaler, A16BitLossIsAnError) {
  const Tensor loss(ops::full({1}, 1, DType::f16), true);
  EXPECT_ERROR(GradScaler().scale(loss), "f16", "cast()");
}

TEST(GradScaler, DisabledDoesNothing) {
  Tensor a = parameter({1});
  SGD sgd({{"a", a}}, {.lr = 1});
  GradScaler scaler({.enabled = false});
  const Tensor loss = sum(a);
  EXPECT_TRUE(scaler.scale(loss).same_as(loss));
  a.set_grad(array_of({infinity}));
  EXPECT_TRUE(scaler.step(sgd));
  scaler.update();
  EXPECT_EQ(values_of(a.value()), Floats({-infinity}));
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_TRUE(scaler.state_dict().empty());
}

TEST(GradScaler, StateGoesOnWhereItWas) {
  Tensor a = parameter({1});
  SGD sgd({{"a", a}}, {.lr = 1});
  GradScaler scaler({.init_scale = 64, .growth_interval = 2});
  const auto make_step = [&](GradScaler& s) {
    a.set_grad(array_of({1}));
    s.step(sgd);
    s.update();
    return s.scale();
  };
  EXPECT_EQ(make_step(scaler), 64);
  GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(make_step(other), 128);
  auto incomplete = scaler.state_dict();
  incomplete.pop_back();
  EXPECT_ERROR(other.load_state_dict(incomplete), "_growth_tracker");
  for (const double steps : {1e30, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    auto odd = scaler.state_dict();
    odd[4].array = ops::scalar(steps, DType::f64);
    EXPECT_ERROR(other.load_state_dict(odd), "the saved _growth_tracker", "not a number of steps");
  }
  EXPECT_EQ(other.scale(), 128);
}

TEST(GradScaler, OptionsOutOfRangeAreErrors) {
  EXPECT_ERROR(GradScaler({.init_scale = 0}), "init_scale", "0");
  EXPECT_ERROR(GradScaler({.growth_factor = 1}), "growth_factor");
  EXPECT_ERROR(GradScaler({.backoff_factor = 1}), "backoff_factor");
  EXPECT_ERROR(GradScaler({.growth_interval = 0}), "growth_interval");
}

}  // namespace
}  // namespace tandem
