// Optimizers that are not in the library, and use only its public headers: those of apps/examples.
#include <tandem/core/ops.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/lr_scheduler.h>
#include <tandem/optim/state_file.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "../../apps/examples/lion.h"
#include "../../apps/examples/muon.h"
#include "support/arrays.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "support/torch_python.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::expect_close;
using testing::expect_same;

// Returns numbers between -1 and 1, which differ from step to step. The Python code below computes the same numbers.
Array gradient(const Shape& shape, int step) {
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(1 + 3 * step + double(i)));
  return array_of(values, shape);
}

// A wide matrix and a tall one, each in a separate group.
template <class T>
struct Job {
  Tensor wide{gradient({2, 3}, 100), true}, tall{gradient({4, 2}, 101), true};
  T optimizer{std::vector<typename T::Group>{{{{"wide", wide}}, {.lr = 0.5, .weight_decay = 0.1}},
                                             {{{"tall", tall}}, {.lr = 0.25, .weight_decay = 0}}}};
  int steps = 0;

  void set_gradients(double factor = 1) {
    wide.set_grad(ops::zip(functors::Mul{}, gradient({2, 3}, steps), ops::scalar(factor)));
    tall.set_grad(ops::zip(functors::Mul{}, gradient({4, 2}, steps), ops::scalar(factor)));
    ++steps;
  }
  void step() {
    set_gradients();
    optimizer.step();
  }
};

template <class T>
void expect_equal(const Job<T>& expected, const Job<T>& found) {
  expect_same(expected.wide.value(), found.wide.value(), "wide");
  expect_same(expected.tall.value(), found.tall.value(), "tall");
}

template <class T>
struct OwnOptimizer : ::testing::Test {};
using Both = ::testing::Types<Lion, Muon>;
TYPED_TEST_SUITE(OwnOptimizer, Both, );

TYPED_TEST(OwnOptimizer, GoesWithSchedules) {
  Job<TypeParam> scheduled, by_hand;
  optim::LrScheduler schedule(scheduled.optimizer, optim::StepLR{.step_size = 1, .gamma = 0.5});
  for (int i = 0; i < 3; ++i) {
    by_hand.optimizer.set_lr(0.5 * std::pow(0.5, i), 0);
    by_hand.optimizer.set_lr(0.25 * std::pow(0.5, i), 1);
    by_hand.step();
    scheduled.step();
    schedule.step();
  }
  expect_equal(by_hand, scheduled);
  EXPECT_EQ(scheduled.optimizer.lr(1), 0.25 / 8);
}

// Both optimizers use only the direction of a gradient, so clipping is visible only in the state.
TYPED_TEST(OwnOptimizer, GoesWithClipping) {
  Job<TypeParam> clipped, whole;
  clipped.set_gradients();
  whole.set_gradients();
  const double norm = optim::clip_grad_norm_(clipped.optimizer.parameters(), 0.01).item();
  clipped.optimizer.step();
  whole.optimizer.step();
  const auto small = clipped.optimizer.state_dict(), large = whole.optimizer.state_dict();
  ASSERT_EQ(small.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    expect_close(ops::zip(functors::Mul{}, large[i].array, ops::scalar(0.01 / norm)), small[i].array, 1e-4,
                 small[i].name);
}

TYPED_TEST(OwnOptimizer, GoesWithTheGradScaler) {
  Job<TypeParam> scaled, plain;
  optim::GradScaler scaler({.init_scale = 1024});
  for (int i = 0; i < 3; ++i) {
    scaled.set_gradients(scaler.scale());
    EXPECT_TRUE(scaler.step(scaled.optimizer));
    scaler.update();
    plain.step();
  }
  scaled.set_gradients();
  scaled.tall.set_grad(ops::full({4, 2}, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(scaler.step(scaled.optimizer));
  expect_equal(plain, scaled);
}

TYPED_TEST(OwnOptimizer, ItsStateGoesThroughAFile) {
  const testing::TemporaryFolder folder;
  Job<TypeParam> through, stopped, resumed;
  for (int i = 0; i < 5; ++i) through.step();
  for (int i = 0; i < 2; ++i) stopped.step();
  optim::save_optimizer(folder.path() / "own.safetensors", stopped.optimizer);

  Array(resumed.wide.value()).copy_from(stopped.wide.value());
  Array(resumed.tall.value()).copy_from(stopped.tall.value());
  resumed.steps = 2;
  optim::load_optimizer(folder.path() / "own.safetensors", resumed.optimizer);
  for (int i = 0; i < 3; ++i) resumed.step();
  expect_equal(through, resumed);
}

TYPED_TEST(OwnOptimizer, ItsOptionsAreChecked) {
  Job<TypeParam> job;
  const std::string name = job.optimizer.name();
  EXPECT_EQ(name, (std::is_same_v<TypeParam, Lion> ? "Lion" : "Muon"));
  EXPECT_ERROR(job.optimizer.set_group_options(1, {{"weight_decay", -1.0}}), name, "weight_decay", "-1");
  EXPECT_ERROR(job.optimizer.set_group_options(1, {{"trust", 1.0}}), name + " has no option trust");
}

TEST(Lion, MovesParametersByItsFormula) {
  Job<Lion> job;
  std::vector<double> p = job.wide.value().to_vector<double>(), m(p.size());
  for (int step = 0; step < 5; ++step) {
    job.step();
    const auto g = gradient({2, 3}, step).to_vector<double>();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double mixed = 0.9 * m[i] + 0.1 * g[i];
      p[i] = p[i] * (1 - 0.5 * 0.1) - 0.5 * (mixed > 0 ? 1 : -1);
      m[i] = 0.99 * m[i] + 0.01 * g[i];
    }
    expect_close(Array::from(p, {2, 3}), job.wide.value(), 1e-6, "step " + std::to_string(step));
  }
  expect_close(Array::from(m, {2, 3}), job.optimizer.state_dict()[0].array, 4e-6, "exp_avg");
  EXPECT_EQ(job.optimizer.state_dict()[0].name, "wide/exp_avg");
}

// A diagonal matrix stays diagonal, so the iteration transforms each of its numbers separately.
TEST(Muon, BringsSingularValuesNearOne) {
  std::vector<double> values(12);
  const std::vector<double> diagonal = {1, -0.5, 0.1};
  for (int i = 0; i < 3; ++i) values[i * 4] = diagonal[i];
  const Array square = Array::from(values, {4, 3}).to(DType::f32);  // rows 0 to 2 contain the diagonal
  std::vector<double> expected(12);
  for (int i = 0; i < 3; ++i) {
    double x = diagonal[i] / std::sqrt(1.26);
    for (int step = 0; step < 5; ++step) x = 3.4445 * x - 4.7750 * x * x * x + 2.0315 * std::pow(x, 5);
    EXPECT_NEAR(std::abs(x), 1, 0.35);
    expected[i * 4] = x;
  }
  expect_close(Array::from(expected, {4, 3}), orthogonalized(square).value(), 1e-4, "4 x 3");
  expect_close(Array::from(expected, {4, 3}).transpose(0, 1), orthogonalized(square.transpose(0, 1)).value(), 1e-4,
               "3 x 4");
}

TEST(Muon, IsForMatrices) {
  EXPECT_ERROR(Muon({{"layer.bias", Tensor(ops::zeros({3}), true)}}), "Muon: layer.bias is (3)", "AdamW");
}

// PyTorch's Muon computes the iteration in bf16.
TEST(Muon, EqualsPyTorchWithinBf16) {
  TANDEM_NEEDS_TORCH();
  const auto outcome = testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", R"(
import math
import torch

def gradient(rows, columns, step):
    return torch.tensor([math.sin(1 + 3 * step + i) for i in range(rows * columns)]).reshape(rows, columns)

wide, tall = (torch.nn.Parameter(gradient(*shape)) for shape in ((2, 3, 100), (4, 2, 101)))
optimizer = torch.optim.Muon([{"params": [wide], "lr": 0.5, "weight_decay": 0.1},
                              {"params": [tall], "lr": 0.25, "weight_decay": 0}])
for step in range(5):
    wide.grad, tall.grad = gradient(2, 3, step), gradient(4, 2, step)
    optimizer.step()
print(*wide.flatten().tolist(), *tall.flatten().tolist())
)"});
  if (outcome.err.find("has no attribute 'Muon'") != std::string::npos)
    GTEST_SKIP() << "NOT RUN: the PyTorch of " << testing::torch_python() << " has no Muon";
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  Job<Muon> job;
  for (int i = 0; i < 5; ++i) job.step();
  std::istringstream numbers(outcome.out);
  std::vector<double> expected(14);
  for (double& number : expected) numbers >> number;
  const Array all = Array::from(expected, {14});
  expect_close(all.slice(0, 0, 6).reshape({2, 3}), job.wide.value(), 0.02, "wide");
  expect_close(all.slice(0, 6, 14).reshape({4, 2}), job.tall.value(), 0.02, "tall");
}

// A program's own rule that uses counts, and numbers that are equal for a whole parameter.
TEST(OwnRule, EqualsTheLibrarys) {
  class Copy : public optim::FusedOptimizer<optim::AdamOptions> {
   public:
    explicit Copy(std::vector<NamedTensor> parameters)
        : FusedOptimizer("Copy::step", "Copy", {optim::AdamGroup{std::move(parameters), {}}}) {}

   private:
    UpdateRule rule(int) const override {
      return optim::own_rule(rules::Adam<false>{{lr(), 0.9, 0.999, 1e-8, 0, 1, 1}});
    }
  };
  const Shape shape{300, 300};  // large enough for several pieces
  Tensor here(gradient(shape, 0), true), there(gradient(shape, 0), true);
  Copy copy({{"weight", here}});
  optim::Adam adam({{"weight", there}});
  for (int step = 1; step < 4; ++step) {
    for (Tensor* t : {&here, &there}) t->set_grad(gradient(shape, step));
    copy.step();
    adam.step();
    expect_close(there.value(), here.value(), 1e-6, "step " + std::to_string(step));
  }
  const auto expected = adam.state_dict(), found = copy.state_dict();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].name, expected[i].name);
  EXPECT_EQ(found.back().array.item(), 3);
}

struct AveragingOptions {
  double lr = 1;
  void check(const char*) const {}
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
  }
};

// An optimizer that updates whole arrays and counts its updates: p = p - g / (updates so far + 1).
class Averaging : public optim::OptimizerOf<AveragingOptions> {
 public:
  explicit Averaging(std::vector<NamedTensor> parameters)
      : OptimizerOf("Averaging::step", "Averaging", {{std::move(parameters), {}}}) {}

 private:
  optim::KeptState kept_state(int) const override { return {.names = {}, .counts = true}; }
  void update(int, std::span<optim::ParameterUpdate> updates) override {
    for (optim::ParameterUpdate& u : updates) {
      u.count.fill(u.count.item() + 1);
      const Array step = ops::zip(functors::Div{}, u.gradient, u.count);
      u.parameter.copy_from(ops::zip(functors::Sub{}, u.parameter, step));
    }
  }
};

TEST(Averaging, CountsItsUpdates) {
  Tensor p(array_of({0}), true);
  Averaging optimizer({{"p", p}});
  for (int i = 0; i < 3; ++i) {
    p.set_grad(array_of({-1}));
    optimizer.step();
  }
  EXPECT_NEAR(p.item(), 1 + 1.0 / 2 + 1.0 / 3, 1e-6);
  EXPECT_EQ(optimizer.state_dict()[0].name, "p/step");
}

}  // namespace
}  // namespace tandem
