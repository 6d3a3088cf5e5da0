// Recompute gives the same numbers and the same calls of gradient hooks with less memory.
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/init.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/nn/recompute.h>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>

#include <map>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::counting;
using testing::expect_same;

Tensor ramp(const Shape& shape, bool requires_grad = false) {
  const auto n = static_cast<double>(shape.product());
  return Tensor(ops::map(functors::Affine{2 / n, -1}, counting(shape)), requires_grad);
}

// The gradients of `module`'s parameters and of `x`, and the order in which they became ready.
struct Result {
  Array y, input_gradient;
  std::vector<Array> gradients;
  std::vector<std::string> order;
  std::map<std::string, int> calls;
};

Result run(nn::Module& module, const Shape& shape, const std::function<Tensor(const Tensor&)>& forward,
           int passes = 1) {
  Result result;
  std::vector<HookHandle> handles;
  for (const auto& [name, tensor] : module.parameters()) {
    handles.push_back(tensor.on_grad_ready([&result, name = name] {
      result.order.push_back(name);
      ++result.calls[name];
    }));
  }
  const Tensor x = ramp(shape, true);
  for (int i = 0; i < passes; ++i) {
    const Tensor y = forward(x * 1.5);
    y.backward({.gradient = ops::map(functors::Affine{0.3, -1}, counting(y.shape()))});
    result.y = y.value();
  }
  result.input_gradient = x.grad().clone();
  for (const auto& [name, tensor] : module.parameters()) result.gradients.push_back(tensor.grad().clone());
  for (auto& handle : handles) handle.remove();
  module.zero_grad();
  return result;
}

void expect_equal(const Result& expected, const Result& found) {
  expect_same(expected.y, found.y, "output");
  expect_same(expected.input_gradient, found.input_gradient, "gradient of the input");
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    expect_same(expected.gradients[i], found.gradients[i], "gradient " + std::to_string(i));
  EXPECT_EQ(found.order, expected.order);
  EXPECT_EQ(found.calls, expected.calls);
}

nn::Sequential deep(int depth, std::int64_t width) {
  nn::Sequential net;
  for (int i = 0; i < depth; ++i) {
    net.push_back(nn::Linear(width, width));
    net.push_back(nn::ReLU());
  }
  return net;
}

TEST(Recompute, GivesTheSameGradientsAndHooks) {
  nn::Sequential net = deep(6, 8);
  const Result plain = run(net, {5, 8}, [&](const Tensor& x) { return net(x); });
  EXPECT_EQ(plain.order.size(), 12u);
  expect_equal(plain, run(net, {5, 8}, [&](const Tensor& x) { return nn::recompute(net, x); }));
  for (const int segments : {1, 2, 5, 12})
    expect_equal(plain, run(net, {5, 8}, [&](const Tensor& x) { return nn::recompute_sequential(net, segments, x); }));
  EXPECT_ERROR(nn::recompute_sequential(net, 13, ramp({5, 8})), "13 segments", "12 modules");
  EXPECT_ERROR(nn::recompute_sequential(net, 0, ramp({5, 8})), "0 segments");
}

TEST(Recompute, AddsUpOverPasses) {
  nn::Sequential net = deep(3, 8);
  expect_equal(run(
                   net, {5, 8}, [&](const Tensor& x) { return net(x); }, 3),
               run(
                   net, {5, 8}, [&](const Tensor& x) { return nn::recompute_sequential(net, 2, x); }, 3));
}

TEST(Recompute, SharesParametersWithTheRest) {
  // One weight is used before, in and after the recomputed part, and twice in it. Its hook waits for the last use.
  nn::Sequential net = deep(1, 8);
  const auto f = [&](const Tensor& x) { return net(net(x) + x); };
  const auto plain = [&](const Tensor& x) { return net(f(net(x)) * x); };
  const auto checked = [&](const Tensor& x) { return net(nn::recompute(f, net(x)) * x); };
  const Result expected = run(net, {5, 8}, plain), found = run(net, {5, 8}, checked);
  expect_equal(expected, found);
  EXPECT_EQ(found.calls.at("0.weight"), 1);
}

TEST(Recompute, NestsAndBranches) {
  nn::Sequential a = deep(2, 8), b = deep(2, 8);
  struct Both : nn::Module {
    Both(nn::Sequential& a, nn::Sequential& b) {
      for (int i : {0, 2}) add_child("a" + std::to_string(i), a.children()[i].second);
      for (int i : {0, 2}) add_child("b" + std::to_string(i), b.children()[i].second);
    }
  } both(a, b);
  const auto plain = [&](const Tensor& x) {
    const Tensor left = a(b(a(x)));
    return left * b(x);
  };
  const auto checked = [&](const Tensor& x) {
    const Tensor left = nn::recompute(
        [&](const Tensor& y) {
          return nn::recompute(a, nn::recompute([&](const Tensor& z) { return b(nn::recompute(a, z)); }, y));
        },
        x);
    return left * nn::recompute(b, x);
  };
  expect_equal(run(both, {5, 8}, plain), run(both, {5, 8}, checked));
}

TEST(Recompute, TakesSeveralInputsAndCapturesOthers) {
  const Tensor a = ramp({4}, true), b = ramp({4}, true), w(array_of({2, 3, 5, 7}), true);
  const Tensor constant = ramp({4});
  const auto f = [](const Tensor& x, const Tensor& y, const Tensor& z) { return x * y + y * z; };
  sum(f(a, b * w, constant)).backward();
  const Array ga = a.grad().clone(), gb = b.grad().clone(), gw = w.grad().clone();
  for (Tensor t : {a, b, w}) t.set_grad(Array());
  sum(nn::recompute(f, a, b * w, constant)).backward();
  expect_same(ga, a.grad(), "a");
  expect_same(gb, b.grad(), "b");
  expect_same(gw, w.grad(), "w");
  for (Tensor t : {a, b, w}) t.set_grad(Array());
  // A captured Tensor keeps its history too.
  const Tensor product = b * w;
  sum(nn::recompute([&](const Tensor& x) { return f(x, product, constant); }, a)).backward();
  expect_same(ga, a.grad(), "a");
  expect_same(gb, b.grad(), "b");
  expect_same(gw, w.grad(), "w");
}

TEST(Recompute, ReturnsWhatHasNoHistoryAsItIs) {
  const Tensor x = ramp({4}, true), y = x * 2;
  EXPECT_TRUE(nn::recompute([](const Tensor& t) { return t; }, x).same_as(x));
  EXPECT_TRUE(nn::recompute([](const Tensor& t) { return t; }, y).same_as(y));
  EXPECT_FALSE(nn::recompute([](const Tensor& t) { return t * 2; }, ramp({4})).requires_grad());
  int runs = 0;
  {
    const NoGrad no_grad;
    const Tensor z = nn::recompute([&](const Tensor& t) { return ++runs, t * 2; }, x);
    EXPECT_FALSE(z.requires_grad());
  }
  EXPECT_EQ(runs, 1);
}

TEST(Recompute, DrawsTheSameRandomNumbersAgain) {
  const Tensor x = ramp({30}, true);
  std::vector<Array> masks;
  const auto noisy = [&](const Tensor& t) {
    const Tensor mask(ops::zeros({30}));
    nn::init::uniform_(mask);
    masks.push_back(mask.value());
    return t * mask;
  };
  manual_seed(3);
  const Tensor y = nn::recompute(noisy, x);
  const auto after = default_generator().state();
  nn::init::uniform_(Tensor(ops::zeros({7})));
  const auto later = default_generator().state();
  sum(y).backward();
  ASSERT_EQ(masks.size(), 2u);
  expect_same(masks[0], masks[1], "random numbers");
  expect_same(masks[0], x.grad(), "gradient");
  EXPECT_EQ(default_generator().state(), later);
  EXPECT_NE(after, later);
}

TEST(Recompute, ComputesInTheSameDtypeAgain) {
  const Tensor x = ramp({4, 8}, true);
  nn::Linear linear(8, 8);
  std::vector<DType> dtypes;
  Tensor y;
  {
    const Autocast autocast(DType::bf16);
    y = nn::recompute(
        [&](const Tensor& t) {
          const Tensor z = linear(t);
          dtypes.push_back(z.dtype());
          return z;
        },
        x);
  }
  y.backward({.gradient = ops::ones({4, 8}, DType::bf16)});
  EXPECT_EQ(dtypes, (std::vector<DType>{DType::bf16, DType::bf16}));
  EXPECT_EQ(linear.weight.grad().dtype(), DType::f32);
}

TEST(Recompute, RetainsTheGraphWhereAsked) {
  const Tensor x = ramp({4}, true);
  int runs = 0;
  const Tensor y = sum(nn::recompute([&](const Tensor& t) { return ++runs, t * t; }, x));
  y.backward({.retain_graph = true});
  const Array once = x.grad().clone();
  y.backward();
  EXPECT_EQ(runs, 3);
  expect_same(ops::map(functors::Affine{2, 0}, once), x.grad(), "two passes");
  EXPECT_ERROR(y.backward(), "freed");
}

TEST(Recompute, KnowsWhichLeavesThePassComesTo) {
  nn::Linear inside(4, 4), outside(4, 4);
  bool reaches_inside = false, reaches_outside = true;
  int ends = 0;
  const Tensor bias(ops::zeros({4}), true);
  bias.on_grad_ready([&] {
    reaches_inside = backward_reaches(inside.weight);
    reaches_outside = backward_reaches(outside.weight);
    after_backward([&] { ++ends; });
  });
  inside.weight.on_grad_ready([&] { after_backward([&] { ++ends; }); });
  sum(nn::recompute(inside, ramp({2, 4})) + bias).backward();
  EXPECT_TRUE(reaches_inside);
  EXPECT_FALSE(reaches_outside);
  EXPECT_EQ(ends, 2);
}

TEST(Recompute, SaysWhenTheSecondRunDiffers) {
  nn::Linear first(4, 4), second(4, 4);
  bool again = false;
  const auto other = [&](const Tensor& x) { return std::exchange(again, true) ? second(x) : first(x); };
  const Tensor y = nn::recompute(other, ramp({2, 4}));
  EXPECT_ERROR(sum(y).backward(), "recompute", "computed a different result when it ran again");
  const Tensor x = ramp({2, 4}, true);
  Tensor input = x * 2;
  const Tensor z = nn::recompute(first, input);
  Array(input.value()).fill(0);
  EXPECT_ERROR(sum(z).backward(), "recompute", "(2, 4)", "fill");
  const Tensor v = nn::recompute(first, x);
  nn::init::zeros_(first.weight);
  EXPECT_ERROR(sum(v).backward(), "recompute", "(4, 4)", "fill");
  sum(nn::recompute(first, x)).backward();  // the engine still works
}

TEST(Recompute, CountsABatchOnce) {
  const auto train = [](bool recomputed) {
    manual_seed(1);
    auto net = std::make_unique<nn::models::MnistNet>();
    const Tensor x = ramp({2, 1, 28, 28});
    const Tensor y = recomputed ? nn::recompute(*net, x) : (*net)(x);
    sum(y * y).backward();
    return net;
  };
  const auto plain = train(false), checked = train(true);
  const auto a = plain->state_dict(), b = checked->state_dict();
  for (std::size_t i = 0; i < a.size(); ++i) expect_same(a[i].array, b[i].array, a[i].name);
  const auto p = plain->parameters(), q = checked->parameters();
  for (std::size_t i = 0; i < p.size(); ++i) expect_same(p[i].tensor.grad(), q[i].tensor.grad(), p[i].name);
}

TEST(Recompute, TakesABatchNormWithoutRunningStatistics) {
  nn::BatchNorm2d norm(3, {.affine = false, .track_running_stats = false});
  const auto gradient = [&](bool recomputed) {
    const Tensor x(ramp({2, 3, 2, 2}).value(), true);
    const Tensor y = recomputed ? nn::recompute(norm, x) : norm(x);
    sum(y * y * y).backward();
    return x.grad();
  };
  expect_same(gradient(false), gradient(true), "x");
}

void add_to(const Tensor& x, const Tensor& y) {
  autograd::check_in_place("add_to", {x, y});
  Array target = x.value();
  ops::add_(target, y.value());
  autograd::record_in_place("add_to", {x, y}, [](const Array& grad, autograd::Needs) -> autograd::Gradients {
    return {grad, grad};
  });
}

TEST(Recompute, GraphsDoNotKeepThemselvesAlive) {
  std::weak_ptr<Storage> memory;
  {
    const Tensor x = ramp({4}, true);
    Tensor h = x * 2;
    memory = h.value().storage();
    const Tensor y = nn::recompute([](const Tensor& t) { return t * 3; }, h);
    add_to(h, y);
  }
  EXPECT_TRUE(memory.expired());
}

TEST(Recompute, ALongChainIsReleasedAndDifferentiated) {
  const Tensor x = ramp({1}, true);
  for (const bool backward : {true, false}) {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = nn::recompute([](const Tensor& t) { return t + 1; }, y);
    if (backward) y.backward();
  }
  EXPECT_EQ(x.grad().item(), 1);
}

// Returns the peak memory of one training step, minus the memory before it.
std::uint64_t peak(const std::function<Tensor()>& forward) {
  const auto before = memory_stats();
  sum(forward()).backward();
  return memory_stats().peak_bytes_in_use - before.bytes_in_use;
}

// Runs in a separate process, because the peak never falls. The smaller peak is measured first.
TEST(RecomputeDeathTest, ADeepChainNeedsLessMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto measure = [] {
    nn::Sequential net = deep(36, 64);
    const Tensor x = ramp({512, 64});
    const auto checked = peak([&] { return nn::recompute_sequential(net, 6, x); });
    net.zero_grad();
    const auto plain = peak([&] { return net(x); });
    std::fprintf(stderr, "%llu bytes with recomputed parts, %llu without\n", static_cast<unsigned long long>(checked),
                 static_cast<unsigned long long>(plain));
    _exit(plain > 36 * x.value().bytes() && checked < 2 * plain / 3 ? 0 : 1);
  };
  EXPECT_EXIT(measure(), ::testing::ExitedWithCode(0), "bytes with recomputed parts");
}

}  // namespace
}  // namespace tandem
