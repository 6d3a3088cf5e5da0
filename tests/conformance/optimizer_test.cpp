// Tests optimizer steps over many segments, and norms of these segments.
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/device/device.h>
#include <tandem/core/ops.h>
#include <tandem/optim/adagrad.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/ema.h>
#include <tandem/optim/graphed_step.h>
#include <tandem/optim/own_rule.h>
#include <tandem/optim/rmsprop.h>
#include <tandem/optim/sgd.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <limits>

#include "conformance/compare.h"
#include "conformance/updates.h"

namespace tandem {
namespace {

using testing::expect_options_reach_a_recorded_step;
using testing::expect_same;
using testing::gpu;
using testing::numbers;
using testing::Parameters;
using testing::sizes;

const UpdateRule momentum = rules::SgdMomentum{0.1f, 0, 0.9f, 1, false, false};

TEST(CudaOptimizer, EveryRuleIsTheCpus) {
  const rules::AdamNumbers adam{0.1, 0.9, 0.999, 1e-8, 0.01f, 0.99f, -1};
  const rules::RmsPropNumbers rms_prop{0.1f, 0.9f, 0.1f, 1e-3f, 0.01f, 0.9f, -1};
  const std::vector<UpdateRule> all = {rules::Sgd{0.1f, 0},
                                       rules::Sgd{0.1f, 0.01f},
                                       momentum,
                                       rules::SgdMomentum{0.1f, 0.01f, 0.9f, 0.5f, false, false},
                                       rules::SgdMomentum{0.1f, 0.01f, 0.9f, 1, true, false},
                                       rules::Adam<false>{adam},
                                       rules::Adam<true>{adam},
                                       rules::RmsProp<false, false>{rms_prop},
                                       rules::RmsProp<false, true>{rms_prop},
                                       rules::RmsProp<true, false>{rms_prop},
                                       rules::RmsProp<true, true>{rms_prop},
                                       rules::Adagrad{0.1, 0.1, 1e-3f, 0.01f, 1},
                                       rules::Average{0.1f},
                                       rules::Average{0.9f},
                                       rules::ClipNorm{2},
                                       rules::ClipValue{0.3f}};
  for (const UpdateRule& rule : all) {
    SCOPED_TRACE(::testing::Message() << "rule " << rule.index());
    Parameters here(sizes, {}), there(sizes, gpu);
    for (int step = 0; step < 3; ++step) {
      for (Parameters* p : {&here, &there}) {
        for (std::size_t i = 0; i < p->segments.size(); ++i) p->segments[i].is_first = step == 0 && i % 2 == 0;
        p->step(rule);
      }
    }
    const double tolerance = 16 * testing::machine_epsilon(DType::f32);
    expect_same(here.values, there.values, tolerance);
    for (int i = 0; i < 3; ++i) expect_same(here.states[i], there.states[i], tolerance);
    expect_same(here.gradients, there.gradients, 0);
    expect_same(here.counts, there.counts, 0);
    const bool counts = std::visit([](const auto& r) { return r.counts; }, rule);
    for (const float count : here.counts.to_vector<float>()) EXPECT_EQ(count, counts ? 6 : 3);
  }
}

TEST(CudaOptimizer, OptionsReachARecordedStep) {
  const optim::NamedOption decay{"weight_decay", 0.1};
  expect_options_reach_a_recorded_step<optim::SGD>(optim::SGDOptions{}, {decay});
  expect_options_reach_a_recorded_step<optim::SGD>(optim::SGDOptions{.momentum = 0.9},
                                                   {decay, {"momentum", 0.5}, {"nesterov", true}});
  expect_options_reach_a_recorded_step<optim::Adam>(optim::AdamOptions{}, {decay, {"betas", std::array{0.8, 0.9}}});
  expect_options_reach_a_recorded_step<optim::AdamW>(optim::AdamWOptions{.amsgrad = true}, {decay, {"maximize", true}});
  expect_options_reach_a_recorded_step<optim::RMSprop>(optim::RMSpropOptions{}, {decay, {"alpha", 0.5}});
  expect_options_reach_a_recorded_step<optim::Adagrad>(optim::AdagradOptions{}, {decay, {"lr_decay", 0.1}});
}

// own_rule_test.cu has rules that are compiled with nvcc.
TEST(CudaOptimizer, AnOwnRuleNeedsNvcc) {
  Parameters there(sizes, gpu);
  const UpdateRule rule = optim::own_rule(rules::Sgd{0.1f, 0});
  EXPECT_ERROR(there.step(rule), "no code for a GPU", "nvcc", "optim::OptimizerOf");
}

TEST(CudaOptimizer, AVelocityThatIsFreshIsNotRead) {
  const std::vector<std::int64_t> one = {100};
  Parameters here(one, {}), there(one, gpu);
  for (Parameters* p : {&here, &there}) {
    p->states[0].fill(std::nan(""));
    p->segments[0].is_first = true;
    p->step(momentum);
  }
  expect_same(here.values, there.values);
  expect_same(here.gradients, there.states[0], 0);
}

TEST(CudaOptimizer, UpdatesManySegments) {
  const std::vector<std::int64_t> many(200, 3);
  Parameters here(many, {}), there(many, gpu);
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
#endif
  here.step(momentum);
  there.step(momentum);
#ifdef TANDEM_EMULATED_CUDA
  // Each segment gets one block. Addresses and sizes are not copied, because a graph could not repeat the
  // copies.
  EXPECT_EQ(emulation::driver().log,
            (std::vector<std::string>{"launch 84 x 256", "launch 84 x 256", "launch 32 x 256"}));
#endif
  expect_same(here.values, there.values);
  expect_same(here.states[0], there.states[0]);
  for (Parameters* p : {&here, &there}) p->step(rules::Adam<true>{{0.1, 0.9, 0.999, 1e-8, 0, 1, 1}});
  expect_same(here.values, there.values);
  expect_same(here.counts, there.counts, 0);
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaOptimizer, NothingToUpdateIsNoKernel) {
  emulation::driver().log.clear();
  backend(gpu).update({}, momentum);
  const std::vector<UpdateSegment> empty = {{nullptr, nullptr, {}, nullptr, 0, false}};
  backend(gpu).update(empty, momentum);
  EXPECT_EQ(emulation::driver().log, std::vector<std::string>{});
}
#endif

float norm_of(const Parameters& p, double order) {
  std::vector<Segment> segments;
  for (const UpdateSegment& s : p.segments) segments.push_back({s.parameter, s.numel});
  const Array norm = Array::empty({}, DType::f32, p.values.device());
  backend(p.values.device()).segments_norm(segments, order, norm);
  return static_cast<float>(norm.item());
}

TEST(CudaOptimizer, NormsAreTheCpus) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto expect_equal = [](const std::vector<std::int64_t>& lengths, double order) {
    Parameters here(lengths, {}), there(lengths, gpu);
    const float expected = norm_of(here, order);
    EXPECT_NEAR(norm_of(there, order), expected, 1e-6 * expected) << order;
    EXPECT_EQ(expected > 0, lengths.size() > 1) << order;
  };
  const std::vector<std::int64_t> few = {1, 2049, 0, 31};
  for (const double order : {2.0, 3.0, infinity}) expect_equal(few, order);
  expect_equal(std::vector<std::int64_t>(171, 3), 2);  // more segments than one launch has room for
  expect_equal({0}, 2);
  expect_equal({}, infinity);
  Parameters here(few, {}), there(few, gpu);
  for (Parameters* p : {&here, &there}) {
    p->values.slice(0, 2060, 2061).fill(std::nan(""));
    for (const double order : {2.0, infinity}) EXPECT_TRUE(std::isnan(norm_of(*p, order))) << order;
  }
}

// A step with everything that a program may do between backward() and the next step.
struct Training {
  Tensor a, b;
  optim::Adam adam;
  optim::ExponentialMovingAverage average;

  explicit Training(Device device)
      : a(numbers({1000}, 1).to(device), true),
        b(numbers({3, 5}, 2).to(device), true),
        adam({{"a", a}, {"b", b}}, {.lr = 0.1, .amsgrad = true}),
        average({{"a", a}, {"b", b}}, {}, {.decay = 0.9}) {
    a.set_grad(numbers({1000}, 3).to(device));
    b.set_grad(numbers({3, 5}, 4).to(device));
  }
  Array step() {
    const Array norm = optim::clip_grad_norm_(adam.parameters(), 3);
    optim::clip_grad_value_(adam.parameters(), 0.2);
    adam.step();
    average.update();
    return norm;
  }
};

TEST(CudaOptimizer, ARecordedStepCountsOn) {
  Training here({}), there(gpu);
  for (int step = 0; step < 2; ++step) {
    here.step();
    there.step();
  }
  const auto graph = record_graph(gpu, [&] { there.step(); });
  for (int step = 0; step < 3; ++step) {
    here.step();
    graph->replay();
  }
  const auto expected = here.adam.state_dict(), found = there.adam.state_dict();
  ASSERT_EQ(expected.size(), 8u);
  for (std::size_t i = 0; i < expected.size(); ++i) expect_same(expected[i].array, found[i].array, 1e-6);
  EXPECT_EQ(found[3].array.item(), 5);
  expect_same(here.a.value(), there.a.value(), 1e-6);
  expect_same(here.average.averages()[0].array, there.average.averages()[0].array, 1e-6);
}

}  // namespace
}  // namespace tandem
