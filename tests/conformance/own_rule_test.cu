// Tests a program's own rule on a GPU, in a file that nvcc compiles. The emulated GPU uses emulation/own_rule.cpp
// instead.
#include <tandem/optim/own_rule.cuh>

#include <gtest/gtest.h>

#include "../../apps/examples/lion.h"
#include "conformance/updates.h"

namespace tandem {
namespace {

using testing::expect_same;
using testing::gpu;
using testing::Parameters;
using testing::sizes;

TEST(CudaOwnRule, IsTheCpus) {
  const UpdateRule rule = optim::own_rule(LionRule{0.1f, 0.9f, 0.99f, 0.01f});
  Parameters here(sizes, {}), there(sizes, gpu);
  for (int step = 0; step < 3; ++step) {
    here.step(rule);
    there.step(rule);
  }
  const double tolerance = 16 * testing::machine_epsilon(DType::f32);
  expect_same(here.values, there.values, tolerance);
  expect_same(here.states[0], there.states[0], tolerance);
  expect_same(here.gradients, there.gradients, 0);
  for (const float count : there.counts.to_vector<float>()) EXPECT_EQ(count, 3) << "the rule does not count";
}

TEST(CudaOwnRule, OptionsReachARecordedStep) {
  testing::expect_options_reach_a_recorded_step<Lion>(LionOptions{.lr = 0.01},
                                                      {{"weight_decay", 0.1}, {"betas", std::array{0.8, 0.9}}});
}

}  // namespace
}  // namespace tandem
