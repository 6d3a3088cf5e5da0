// Gradients of intermediate results: retain_grad() and autograd::grad().
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using testing::expect_same;
using Floats = std::vector<float>;

TEST(RetainGrad, a_result_keeps_its_gradient) {
  const Tensor x(counting({3}), true);
  const Tensor h = x * x;
  EXPECT_ERROR(h.grad(), "mul", "retain_grad()", "autograd::grad()");
  h.retain_grad();
  EXPECT_FALSE(h.grad().defined());
  sum(h * 3 + h).backward();
  EXPECT_EQ(h.grad().to_vector<float>(), (Floats{4, 4, 4}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 8, 16}));
}

TEST(RetainGrad, gradients_of_several_passes_add_up) {
  const Tensor x(counting({2}), true);
  const Tensor h = x * 2;
  h.retain_grad();
  const Tensor y = sum(h * h);
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(h.grad().to_vector<float>(), (Floats{0, 8}));
}

TEST(RetainGrad, needs_a_tensor_that_requires_a_gradient) {
  EXPECT_ERROR(Tensor(counting({2})).retain_grad(), "requires no gradient");
  Tensor leaf(counting({2}), true);
  leaf.retain_grad();  // leaves keep theirs anyway
  sum(leaf).backward();
  EXPECT_TRUE(leaf.grad().defined());
}

TEST(Grad, gives_gradients_and_leaves_all_others_alone) {
  const Tensor x(counting({3}), true), w(ops::ones({3}), true);
  int calls = 0;
  const auto hook = w.on_grad_ready([&] { ++calls; });
  const Tensor h = x * w, y = sum(h * h);
  const auto gradients = autograd::grad({y}, {x, h}, {.retain_graph = true});
  EXPECT_EQ(gradients[0].to_vector<float>(), (Floats{0, 2, 4}));
  EXPECT_EQ(gradients[1].to_vector<float>(), (Floats{0, 2, 4}));
  EXPECT_FALSE(x.grad().defined() || w.grad().defined());
  EXPECT_EQ(calls, 0);
  y.backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 2, 4}));
}

TEST(Grad, adds_up_over_outputs_and_uses) {
  const Tensor x(counting({2}), true);
  const Tensor a = x * 2, b = x * x;
  EXPECT_EQ(autograd::grad({sum(a), sum(b)}, {x}, {.retain_graph = true})[0].to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(autograd::grad({a, b}, {x}, {.gradients = {ops::full({2}, 10), ops::full({2}, 1)}})[0].to_vector<float>(),
            (Floats{20, 22}));
  EXPECT_EQ(autograd::grad({x * 1, x * 1}, {x}, {.gradients = {ops::ones({2}), ops::ones({2})}})[0].to_vector<float>(),
            (Floats{2, 2}));
}

TEST(Grad, says_what_does_not_fit) {
  const Tensor x(counting({2}), true), other(counting({2}), true), constant(counting({2}));
  EXPECT_ERROR(autograd::grad({sum(x)}, {other}), "input 0", "was not used", "allow_unused");
  EXPECT_FALSE(autograd::grad({sum(x)}, {other}, {.allow_unused = true})[0].defined());
  EXPECT_ERROR(autograd::grad({sum(x)}, {constant}), "requires no gradient");
  EXPECT_ERROR(autograd::grad({x * x}, {x}), "more than one element", "sum(x)", "mean(x)");
  EXPECT_ERROR(autograd::grad({}, {x}), "at least one output");
  EXPECT_ERROR(autograd::grad({sum(x)}, {x}, {.gradients = {ops::ones({}), ops::ones({})}}),
               "2 gradients were given for 1");
  EXPECT_ERROR((x * x).backward(), "sum(x)", "mean(x)");
}

}  // namespace
}  // namespace tandem
