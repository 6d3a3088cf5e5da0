// Callbacks of the backward engine, when a gradient is ready and at the end of a pass.
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using Names = std::vector<std::string>;

Tensor leaf(const std::vector<float>& values) { return Tensor(array_of(values), true); }
std::vector<float> grad_of(const Tensor& t) { return t.grad().to_vector<float>(); }

TEST(Engine, HooksFireOnceWithTheFinalGradient) {
  const Tensor x = leaf({2});
  std::vector<float> seen;
  x.on_grad_ready([&] { seen.push_back(grad_of(x)[0]); });
  sum(x * x * x).backward();
  sum(x * 10).backward();
  EXPECT_EQ(seen, (std::vector<float>{12, 22}));
}

// Three layers whose weights record when their gradients are ready. `weight_first` says whether the weight is the first
// operand of the product.
Names order_of_hooks(bool weight_first) {
  Names order;
  std::vector<Tensor> weights;
  Tensor x = leaf({1});
  for (int i = 0; i < 3; ++i) {
    const Tensor w = leaf({2});
    w.on_grad_ready([&order, i] { order.push_back("w" + std::to_string(i)); });
    weights.push_back(w);
    x = weight_first ? mul(w, x) : mul(x, w);
    // The marker's closure runs after everything above it.
    x = autograd::record("marker", {x}, x.value(),
                         [&order, i](const Array& grad, autograd::Needs) -> autograd::Gradients {
                           order.push_back("above " + std::to_string(i));
                           return {grad};
                         });
  }
  sum(x).backward();
  return order;
}

TEST(Engine, HooksFireAsEarlyAsPossibleWhateverTheArgumentOrder) {
  const Names expected{"above 2", "w2", "above 1", "w1", "above 0", "w0"};
  EXPECT_EQ(order_of_hooks(true), expected);
  EXPECT_EQ(order_of_hooks(false), expected);
}

TEST(Engine, AHookOfASharedParameterWaitsForItsLastUse) {
  const Tensor w = leaf({2}), x = leaf({3});
  Names order;
  w.on_grad_ready([&] { order.push_back("w"); });
  const Tensor first =
      autograd::record("marker", {x}, x.value(), [&](const Array& grad, autograd::Needs) -> autograd::Gradients {
        order.push_back("start");
        return {grad};
      });
  sum(first * w * w).backward();
  EXPECT_EQ(order, (Names{"w", "start"}));
  EXPECT_EQ(grad_of(w), (std::vector<float>{12}));
}

TEST(Engine, HooksCanBeRemoved) {
  const Tensor x = leaf({2});
  int first = 0, second = 0;
  HookHandle handle = x.on_grad_ready([&] { ++first; });
  x.on_grad_ready([&] { ++second; });
  sum(x).backward();
  handle.remove();
  handle.remove();
  sum(x).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(Engine, AHookMayRemoveItself) {
  const Tensor x = leaf({2});
  int first = 0, second = 0;
  HookHandle handle;
  handle = x.on_grad_ready([&] {
    ++first;
    handle.remove();
  });
  x.on_grad_ready([&] { ++second; });
  sum(x).backward();
  sum(x).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(Engine, AHandleMayOutliveItsTensor) {
  HookHandle handle;
  {
    const Tensor x = leaf({2});
    handle = x.on_grad_ready([] {});
  }
  handle.remove();
}

TEST(Engine, HooksAreForLeavesThatRequireAGradient) {
  EXPECT_ERROR(Tensor(array_of({1})).on_grad_ready([] {}), "on_grad_ready", "requires a gradient");
  EXPECT_ERROR((leaf({1}) * 2).on_grad_ready([] {}), "leaf");
}

TEST(Engine, AfterBackwardRunsAtTheEndInOrder) {
  const Tensor early = leaf({1}), late = leaf({2});
  Names order;
  late.on_grad_ready([&] {
    order.push_back("late");
    after_backward([&] {
      order.push_back("first");
      after_backward([&] { order.push_back("third"); });
    });
    after_backward([&] { order.push_back("second"); });
  });
  early.on_grad_ready([&] { order.push_back("early"); });
  sum(early * 2 * late).backward();
  EXPECT_EQ(order, (Names{"late", "early", "first", "second", "third"}));
  order.clear();
  sum(early * 2).backward();
  EXPECT_EQ(order, (Names{"early"}));
}

TEST(Engine, KnowsFromTheFirstGradientWhichLeavesItWillComeTo) {
  Tensor x(ops::ones({3}), true), y(ops::ones({3}), true), elsewhere(ops::ones({3}), true);
  std::vector<bool> reaches;
  const auto ask = [&] {
    for (const Tensor& tensor : {x, y, elsewhere}) reaches.push_back(backward_reaches(tensor));
  };
  x.on_grad_ready(ask);
  y.on_grad_ready(ask);
  sum(x * y * elsewhere.detach()).backward();
  EXPECT_EQ(reaches, (std::vector<bool>{true, true, false, true, true, false}));
  EXPECT_ERROR(backward_reaches(x), "no backward pass is running");
}

TEST(Engine, AfterBackwardNeedsARunningPass) {
  EXPECT_ERROR(after_backward([] {}), "no backward pass is running");
  const Tensor x = leaf({1});
  sum(x).backward();
  EXPECT_ERROR(after_backward([] {}), "no backward pass is running");
}

TEST(Engine, APassInsideOfAPassHasItsOwnCallbacks) {
  const Tensor outer = leaf({1}), inner = leaf({2});
  const Tensor other = sum(inner * 1);
  Names order;
  inner.on_grad_ready([&] { after_backward([&] { order.push_back("inner"); }); });
  outer.on_grad_ready([&] {
    after_backward([&] { order.push_back("outer"); });
    other.backward();
    order.push_back("between");
  });
  sum(outer).backward();
  EXPECT_EQ(order, (Names{"inner", "between", "outer"}));
}

TEST(Engine, ExceptionsFromAfterBackwardLeaveBackward) {
  const Tensor x = leaf({1});
  HookHandle handle = x.on_grad_ready([] { after_backward([] { throw std::runtime_error("late"); }); });
  EXPECT_THROW(sum(x).backward(), std::runtime_error);
  handle.remove();
  EXPECT_ERROR(after_backward([] {}), "no backward pass is running");
  EXPECT_TRUE(grad_enabled());
  sum(x).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{2}));
}

TEST(Engine, AThrowingHookOrClosureLeavesTheEngineUsable) {
  Tensor x = leaf({1});
  HookHandle handle = x.on_grad_ready([] { throw std::runtime_error("hook"); });
  EXPECT_THROW(sum(x * x).backward(), std::runtime_error);
  handle.remove();
  const Tensor broken = autograd::record(
      "broken", {x}, x.value(),
      [](const Array&, autograd::Needs) -> autograd::Gradients { throw std::runtime_error("closure"); });
  EXPECT_THROW(sum(broken).backward(), std::runtime_error);
  EXPECT_ERROR(after_backward([] {}), "no backward pass is running");
  EXPECT_TRUE(grad_enabled());
  x.zero_grad();
  sum(x * 3).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{3}));
}

}  // namespace
}  // namespace tandem
