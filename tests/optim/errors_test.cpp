// Groups and parameters that optimizers refuse, because they do not exist or have changed.
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/core/ops.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace tandem::optim {
namespace {

Tensor parameter() { return Tensor(ones({2, 3}), true); }

TEST(OptimizerErrors, ParametersThatAreNone) {
  EXPECT_ERROR(SGD(std::vector<SGDGroup>{}), "SGD", "at least one group");
  EXPECT_ERROR(SGD({{"a", Tensor()}}, {}), "SGD", "parameter a", "undefined");
  EXPECT_ERROR(SGD({{"a", parameter()}, {"b", parameter() * 2}}, {}), "SGD", "parameter b", "only leaves");
}

// The errors are the same as at construction, and the options do not change.
TEST(OptimizerErrors, OptionsThatMakeNoSenseLater) {
  SGD sgd({{"a", parameter()}}, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  EXPECT_ERROR(sgd.set_lr(-1), "SGD", "lr", "-1");
  EXPECT_ERROR(sgd.set_lr(std::nan(""), 0), "SGD", "lr", "nan");
  EXPECT_ERROR(sgd.set_momentum(1.5, 0), "SGD", "momentum", "1.5");
  EXPECT_ERROR(sgd.set_momentum(0, 0), "SGD", "nesterov");
  EXPECT_ERROR(sgd.set_group_options(0, {{"lr", -2.0}}), "SGD", "lr", "-2");
  EXPECT_EQ(sgd.lr(), 0.1);
  EXPECT_EQ(sgd.momentum(), 0.9);
  Adam adam({{"a", parameter()}}, {});
  EXPECT_ERROR(adam.set_momentum(1, 0), "Adam", "betas");
}

TEST(OptimizerErrors, GroupsThatAreNotThere) {
  SGD optimizer({{"a", parameter()}}, {});
  EXPECT_ERROR(optimizer.lr(1), "SGD", "no parameter group 1", "has 1");
  EXPECT_ERROR(optimizer.options(-1), "SGD", "-1");
  EXPECT_ERROR(optimizer.set_lr(0.1, 5), "SGD", "5");
  EXPECT_ERROR(optimizer.group_options(3), "SGD", "3");
  EXPECT_ERROR(optimizer.parameter_names(3), "SGD", "3");
}

TEST(OptimizerErrors, ParametersThatHaveChanged) {
  Tensor a = parameter(), b = parameter();
  SGD first({{"a", a}}, {}), second({{"b", b}}, {.momentum = 0.9});
  a.move_to(DType::f64);
  a.set_grad(ones({2, 3}, DType::f64));
  EXPECT_ERROR(first.step(), "SGD", "parameter a", "f64", "before you construct the optimizer");
  b.set_grad(ones({2, 3}));
  second.step();  // its state has the parameter's layout
  b.set_value(ones({3, 2}).transpose(0, 1));
  b.set_grad(ones({2, 3}));
  EXPECT_ERROR(second.step(), "SGD", "parameter b", "(1, 2)");
}

TEST(OptimizerState, ItsOwnStateCanBeLoaded) {
  const Tensor a(ops::ones({3}), true);
  Adam adam({{"a", a}});
  sum(a * a).backward();
  adam.step();
  std::vector<std::vector<float>> before;
  for (const auto& [name, array] : adam.state_dict()) before.push_back(array.to_vector<float>());
  adam.load_state_dict(adam.state_dict());
  std::size_t i = 0;
  for (const auto& [name, array] : adam.state_dict()) EXPECT_EQ(array.to_vector<float>(), before[i++]) << name;
  EXPECT_EQ(i, before.size());
  EXPECT_NE(before[0], std::vector<float>(before[0].size()));
}

TEST(OptimizerState, ParametersWithEqualNamesKeepTheirOwn) {
  const Tensor a(ops::ones({2}), true), b(ops::ones({3}), true);
  Adam adam({{"weight", a}, {"weight", b}});
  EXPECT_EQ(adam.parameter_names(0), (std::vector<std::string>{"weight", "weight#2"}));
  (sum(a * a) + sum(b)).backward();
  adam.step();
  auto state = adam.state_dict();
  for (auto& [name, array] : state) array = array.clone();
  const Tensor c(ops::ones({2}), true), d(ops::ones({3}), true);
  Adam other({{"weight", c}, {"weight", d}});
  other.load_state_dict(state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(other.state_dict()[i].name, state[i].name);
    EXPECT_EQ(other.state_dict()[i].array.to_vector<float>(), state[i].array.to_vector<float>());
  }
  EXPECT_EQ(state.size(), 6u);
}

}  // namespace
}  // namespace tandem::optim
