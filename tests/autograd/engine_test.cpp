// The backward engine: the destination of gradients, the lifetime of a graph, and the mistakes that it detects.
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <thread>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;

Tensor leaf(const std::vector<float>& values) { return Tensor(array_of(values), true); }
std::vector<float> grad_of(const Tensor& t) { return t.grad().to_vector<float>(); }

TEST(Engine, BackwardPassesAdd) {
  const Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 3}));
  sum(x * x).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{5, 7}));
}

TEST(Engine, ZeroGradForgetsTheGradientAndTheNextPassWrites) {
  Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  sum(x * 5).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{5, 5}));
}

// The next backward pass reuses the memory of a gradient. A kept gradient would then hold the numbers of another step.
TEST(Engine, AGradientIsValidUntilTheNextBackward) {
  for (const bool in_buffer : {false, true}) {
    Tensor x = leaf({1, 2}), y = leaf({3, 4});
    if (in_buffer) x.set_grad_buffer(ops::zeros({2}));
    sum(x * 3).backward();
    const Array kept = x.grad(), part = kept.slice(0, 1, 2), copy = kept.clone();
    EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{3, 3}));
    sum(y * y).backward();
    x.zero_grad();
    EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{3, 3})) << "no backward pass has come to x";
    sum(x * 5).backward();
    EXPECT_ERROR(kept.to_vector<float>(), "a later backward pass has replaced it", "grad().clone()");
    EXPECT_ERROR(ops::zip(functors::Add{}, part, part), "grad().clone()");
    EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{3, 3}));
    EXPECT_EQ(grad_of(x), (std::vector<float>{5, 5}));
  }
}

TEST(Engine, AGradientCanBeChangedInItsPlaceAndSet) {
  for (const bool in_buffer : {false, true}) {
    Tensor x = leaf({1, 2});
    if (in_buffer) x.set_grad_buffer(ops::zeros({2}));
    sum(x * 3).backward();
    Array gradient = x.grad();
    ops::scale_(gradient, 2);
    EXPECT_EQ(grad_of(x), (std::vector<float>{6, 6}));
    x.set_grad(gradient);
    EXPECT_EQ(gradient.to_vector<float>(), (std::vector<float>{6, 6}));
    sum(x).backward();
    EXPECT_EQ(grad_of(x), (std::vector<float>{7, 7}));
  }
}

TEST(Engine, TwoThreadsDoNotAddToOneGradientAtOnce) {
  const Tensor shared = leaf({1, 2}), own = leaf({3, 4});
  auto hook = shared.on_grad_ready([&] {
    std::thread([&] {
      EXPECT_ERROR(sum(shared * own).backward(), "another thread is running a backward pass", "(2)");
      sum(own * 2).backward();
      EXPECT_EQ(autograd::grad({sum(shared * own)}, {shared})[0].to_vector<float>(), (std::vector<float>{3, 4}));
    }).join();
  });
  sum(shared * 3).backward();
  hook.remove();
  EXPECT_EQ(grad_of(shared), (std::vector<float>{3, 3}));
  EXPECT_EQ(grad_of(own), (std::vector<float>{2, 2}));
  std::thread([&] { sum(shared).backward(); }).join();  // one after the other
  EXPECT_EQ(grad_of(shared), (std::vector<float>{4, 4}));
  EXPECT_ERROR(sum(shared * own).backward({.gradient = ops::ones({3})}), "the gradient is (3)");
  sum(shared).backward();  // a failed pass lets the next one run
  EXPECT_EQ(grad_of(shared), (std::vector<float>{5, 5}));
}

TEST(Engine, GradientsLandInTheGivenBuffer) {
  Tensor x = leaf({1, 2});
  const Array bucket = ops::full({10}, 7);
  x.set_grad_buffer(bucket.slice(0, 4, 6));
  EXPECT_FALSE(x.grad().defined());
  sum(x * 3).backward();
  EXPECT_EQ(bucket.to_vector<float>(), (std::vector<float>{7, 7, 7, 7, 3, 3, 7, 7, 7, 7}));
  sum(x * 3).backward();
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(bucket.select(0, 4).item(), 6);
  sum(x * 2).backward();
  EXPECT_EQ(bucket.to_vector<float>(), (std::vector<float>{7, 7, 7, 7, 2, 2, 7, 7, 7, 7}));
  EXPECT_EQ(x.grad().raw(), bucket.slice(0, 4, 6).raw());
}

TEST(Engine, AGradientThatExistsMovesIntoTheBuffer) {
  Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  const Array buffer = ops::zeros({2});
  x.set_grad_buffer(buffer);
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 3}));
  sum(x).backward();
  EXPECT_EQ(buffer.to_vector<float>(), (std::vector<float>{4, 4}));
}

TEST(Engine, BuffersMayHaveAnyStrides) {
  Tensor x(testing::counting({2, 3}), true);
  x.set_grad_buffer(ops::zeros({3, 2}).transpose(0, 1));
  sum(x * x).backward();
  sum(x).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{1, 3, 5, 7, 9, 11}));
}

TEST(Engine, AGradientLiesAsItsLeafDoes) {
  const Array numbers = testing::counting({2, 3, 4, 5});
  const Array rows = numbers.clone(), images = numbers.channels_last(),
              turned = testing::counting({5, 4, 3, 2}).permute({3, 2, 1, 0}), sparse = testing::strided(numbers);
  for (const Array& value : {rows, images, turned, sparse}) {
    const Strides expected = value.storage() == sparse.storage() ? rows.strides() : value.strides();
    for (const Array& given : {rows, images, turned, sparse, ops::ones({1, 3, 1, 1}).expand({2, 3, 4, 5})}) {
      Tensor x(value, true);
      x.set_grad(given);
      EXPECT_EQ(x.grad().strides(), expected);
      EXPECT_NE(x.grad().storage(), given.storage());
      EXPECT_EQ(x.grad().to_vector<float>(), given.to_vector<float>());
      sum(x).backward();
      EXPECT_EQ(x.grad().strides(), expected);
      EXPECT_EQ(x.grad().to_vector<float>(), ops::zip(functors::Add{}, given, ops::ones({})).to_vector<float>());
    }
  }
}

TEST(Engine, SetGradReplaces) {
  Tensor x = leaf({1, 2});
  sum(x).backward();
  x.set_grad(array_of({8, 9}));
  EXPECT_EQ(grad_of(x), (std::vector<float>{8, 9}));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_ERROR(x.set_grad(array_of({1, 2, 3})), "(3)", "(2)");
  EXPECT_ERROR(x.set_grad_buffer(ops::zeros({3})), "(3)", "(2)");
  EXPECT_ERROR(x.set_grad_buffer(ops::zeros({2}, DType::f64)), "f64", "f32");
}

TEST(Engine, GradientsDoNotShareTheMemoryOfTheGivenOne) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  const Array given = array_of({1, 1});
  add(x, y).backward({.gradient = given});
  sum(x * 2).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 3}));
  EXPECT_EQ(grad_of(y), (std::vector<float>{1, 1}));
  EXPECT_EQ(given.to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Engine, OneTensorMayBeUsedManyTimes) {
  const Tensor x = leaf({2});
  sum(x * x * x + x * 4).backward();  // 3 x^2 + 4
  EXPECT_EQ(grad_of(x), (std::vector<float>{16}));
  const Tensor y = leaf({3});
  sum(mul(y, y)).backward();
  EXPECT_EQ(grad_of(y), (std::vector<float>{6}));
}

TEST(Engine, Diamonds) {
  const Tensor x = leaf({2});
  Tensor y = x * 1;
  for (int i = 0; i < 20; ++i) y = y + y;  // a million paths
  sum(y).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{1 << 20}));

  // One branch is longer than the other: the shared part must wait for both.
  const Tensor z = leaf({3});
  const Tensor shared = z * z;
  sum(shared + exp(shared * 0) * shared).backward();
  EXPECT_EQ(grad_of(z), (std::vector<float>{12}));
}

TEST(Engine, AGradientThatTwoUsersSeeIsNotAddedToInPlace) {
  // add() passes the same array to both operands, and each operand then gets another contribution.
  const Tensor x = leaf({1}), y = leaf({1});
  const Tensor a = x * 1, b = y * 1;
  sum(a + b + a * 10 + b * 100).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{11}));
  EXPECT_EQ(grad_of(y), (std::vector<float>{101}));
}

TEST(Engine, AGradientThatAClosureKeepsIsNotAddedToInPlace) {
  const Tensor x = leaf({1, 2}), y = x * 1;
  const Array kept = array_of({5, 7});
  const auto f = [&](const Tensor& t, const Array& gradient) {
    return autograd::record("f", {t}, t.value().clone(),
                            [gradient](const Array&, autograd::Needs) { return autograd::Gradients{gradient}; });
  };
  const Array repeated = array_of({3}).expand({2});  // one number in memory
  sum(f(y, kept) + f(y, kept) + f(y, repeated)).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{13, 17}));
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{5, 7}));
  EXPECT_EQ(repeated.to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Engine, OnlyWhatRequiresAGradientGetsOne) {
  const Tensor x = leaf({1, 2}), constant(array_of({3, 4}));
  const Tensor y = x * constant;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  sum(y).backward();
  EXPECT_FALSE(constant.grad().defined());
  EXPECT_ERROR(y.grad(), "retain_grad");
  EXPECT_FALSE((constant * constant).requires_grad());
  EXPECT_ERROR(sum(constant).backward(), "requires no gradient");
}

TEST(Engine, SetRequiresGradIsForFloatingLeaves) {
  Tensor y = leaf({1}) * 2, integers(ops::zeros({2}, DType::i64));
  EXPECT_ERROR(y.set_requires_grad(false), "leaf");
  EXPECT_ERROR(integers.set_requires_grad(true), "i64");
  EXPECT_ERROR(y.set_value(array_of({1})), "leaf");
  EXPECT_ERROR(leaf({1}).set_value(array_of({1, 2})), "(2)", "(1)");
  EXPECT_ERROR(Tensor().value(), "undefined");
  EXPECT_ERROR(Tensor().backward(), "undefined");
}

TEST(Engine, BackwardFromALeaf) {
  const Tensor x = leaf({5});
  int calls = 0;
  x.on_grad_ready([&] { ++calls; });
  x.backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{1}));
  EXPECT_EQ(calls, 1);
}

TEST(Engine, BackwardTakesAGradient) {
  const Tensor x = leaf({1, 2});
  (x * x).backward({.gradient = array_of({10, 100})});
  EXPECT_EQ(grad_of(x), (std::vector<float>{20, 400}));
  EXPECT_ERROR((x * x).backward({.gradient = array_of({1, 2, 3})}), "(3)", "(2)");
  EXPECT_ERROR((x * x).backward(), "(2)", "more than one element");
  // The gradient has the tensor's dtype, whatever dtype and strides the argument has.
  const Tensor y(testing::counting({2, 3}), true);
  (y * 2).backward({.gradient = testing::strided(testing::counting({2, 3}, DType::f64))});
  EXPECT_EQ(grad_of(y), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(y.grad().dtype(), DType::f32);
}

TEST(Engine, TheGraphIsFreedUnlessRetained) {
  const Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{12}));
  EXPECT_ERROR(y.backward(), "sum", "freed", "retain_graph");
  // The error is the same if only a part of the graph has been used up.
  const Tensor shared = x * x;
  sum(shared).backward();
  EXPECT_ERROR(sum(shared * 2).backward(), "mul", "freed");
  EXPECT_EQ(grad_of(x), (std::vector<float>{18}));
}

TEST(Engine, FreeingTheGraphReleasesWhatItSaved) {
  const Tensor x = leaf({3});
  Array saved = array_of({5});
  const std::weak_ptr<Storage> watch = saved.storage();
  const Tensor y = sum(x * Tensor(std::exchange(saved, Array())));
  EXPECT_FALSE(watch.expired());
  y.backward();
  EXPECT_TRUE(watch.expired());
}

TEST(Engine, NoGradRecordsNothing) {
  const Tensor x = leaf({3});
  EXPECT_TRUE(grad_enabled());
  {
    const NoGrad outer;
    { const NoGrad inner; }
    EXPECT_FALSE(grad_enabled());
    const Tensor y = x * x;
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(y.is_leaf());
    EXPECT_ERROR(y.backward(), "NoGrad");
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(Engine, DetachCutsHistoryAndSharesMemory) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  const Tensor cut = y.detach();
  EXPECT_TRUE(cut.is_leaf());
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_EQ(cut.value().raw(), y.value().raw());
  sum(y * cut).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{54}));  // 9 * 2 x, not 4 x^3
}

TEST(Engine, WrongGradientsFromAClosureAreNamed) {
  const auto operation = [](autograd::Gradients gradients) {
    const Tensor x = leaf({1, 2});
    const Tensor inner = x * 2;
    return sum(autograd::record("wrong", {inner}, inner.value(),
                                [gradients](const Array&, autograd::Needs) { return gradients; }));
  };
  EXPECT_ERROR(operation({}).backward(), "wrong", "0", "1");
  EXPECT_ERROR(operation({ops::zeros({3})}).backward(), "wrong", "(3)", "(2)");
  // The same holds if the gradient goes straight to a leaf.
  const Tensor x = leaf({1, 2});
  const Tensor y = autograd::record(
      "wrong", {x}, x.value(), [](const Array&, autograd::Needs) -> autograd::Gradients { return {ops::zeros({3})}; });
  EXPECT_ERROR(sum(y).backward(), "wrong", "(3)", "(2)");
}

TEST(Engine, AnUndefinedGradientIsZero) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  x.on_grad_ready([&] { ++calls; });
  const auto nothing = [](const Array&, autograd::Needs) -> autograd::Gradients { return {Array()}; };
  sum(autograd::record("nothing", {x * 2}, x.value(), nothing)).backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(calls, 1);
  sum(autograd::record("nothing", {x * 2}, x.value(), nothing) + x * 3).backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 3}));
}

TEST(Engine, InPlaceChangesOfSavedValuesAreNamed) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 1;
  const Tensor z = sum(y * y);
  Array value = y.value();
  ops::scale_(value, 2);
  EXPECT_ERROR(z.backward(), "mul", "scale_", "(2)", "in place");

  const Tensor w = relu(x);
  value = w.value();
  value.fill(0);
  EXPECT_ERROR(sum(w).backward(), "relu", "fill");

  value = x.value();
  const Tensor unaffected = sum(x + x);  // addition saves nothing
  value.copy_from(array_of({5, 6}));
  unaffected.backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 2}));
}

TEST(Engine, InPlaceChangesAreNamedByEveryOperationThatSaves) {
  using Make = std::function<Tensor(const Tensor&, const Array&)>;  // of an image, and of the array to be changed
  struct Form {
    const char* name;
    Shape shape;
    Make make;
  };
  BatchNormState state{ops::zeros({2}), ops::ones({2})};
  const std::vector<Form> forms = {
      {"conv2d", {3, 2, 1, 1}, [](const Tensor& x, const Array& a) { return conv2d(x, Tensor(a)); }},
      {"conv2d",
       {1, 2, 2, 2},
       [](const Tensor& x, const Array& a) {
         return conv2d(Tensor(a), reshape(x, {4, 2, 1, 1}));
       }},
      {"linear", {3, 8}, [](const Tensor& x, const Array& a) { return linear(flatten(x, 1), Tensor(a), {}); }},
      {"matmul", {8, 3}, [](const Tensor& x, const Array& a) { return matmul(flatten(x, 1), Tensor(a)); }},
      {"div", {1, 2, 2, 2}, [](const Tensor& x, const Array& a) { return div(x, Tensor(a)); }},
      {"batch_norm",
       {2},
       [&](const Tensor& x, const Array& a) { return batch_norm(x, Tensor(a), Tensor(ops::ones({2})), state); }},
      {"batch_norm",
       {2},
       [&](const Tensor& x, const Array& a) { return batch_norm(x, Tensor(ops::ones({2})), Tensor(a), state); }},
      {"cross_entropy",
       {1},
       [](const Tensor& x, const Array& a) { return cross_entropy(flatten(x, 1), a.to(DType::i64)); }},
  };
  for (const Form& form : forms) {
    const Tensor x(testing::counting({1, 2, 2, 2}), true);
    const bool is_target = form.name == std::string("cross_entropy");
    Array changed = ops::ones(form.shape, is_target ? DType::i64 : DType::f32);
    const Tensor y = form.make(x, changed);
    changed.fill(0);
    EXPECT_ERROR(y.backward({.gradient = ops::ones(y.shape())}), form.name, "fill");
  }
  // Operations that save their outputs.
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> unary = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
      {"amax", [](const Tensor& x) { return amax(x, {0}, true); }},
  };
  for (const auto& [name, make] : unary) {
    const Tensor y = make(Tensor(testing::counting({2, 2}), true));
    Array value = y.value();
    value.fill(0);
    EXPECT_ERROR(y.backward({.gradient = ops::ones(y.shape())}), name, "fill");
  }
}

TEST(Engine, AChainOfAMillionNodes) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 1;
  EXPECT_EQ(y.item(), 1000001);
  y.backward();
  EXPECT_EQ(grad_of(x), (std::vector<float>{1}));
}

TEST(Engine, AChainOfAMillionNodesIsReleasedWithoutBackward) {
  const Tensor x = leaf({1});
  const std::weak_ptr<autograd::TensorState> watch = x.state();
  Tensor y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 1;
  y = Tensor();
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(Engine, GraphsDoNotKeepThemselvesAlive) {
  std::weak_ptr<autograd::TensorState> watch;
  {
    const Tensor x(testing::counting({1, 2, 4, 4}), true);
    watch = x.state();
    const Tensor w(testing::counting({3, 2, 3, 3}), true);
    BatchNormState state{ops::zeros({3}), ops::ones({3})};
    const Tensor y = batch_norm(conv2d(x, w, {}, {.padding = 1}), Tensor(ops::ones({3}), true),
                                Tensor(ops::zeros({3}), true), state, {.relu = true, .max_pool_2x2 = true});
    const Tensor loss = cross_entropy(flatten(y, 1), ops::zeros({1}, DType::i64));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Engine, ThreadsDifferentiateGraphsOfTheirOwn) {
  constexpr int count = 4;
  std::vector<std::vector<float>> gradients(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([t, &gradients] {
      const Tensor w(testing::counting({4, 2, 3, 3}), true);
      for (int round = 0; round < 5; ++round) {
        const Tensor x(ops::full({2, 2, 6, 6}, t + 1));
        int callbacks = 0;
        HookHandle handle = w.on_grad_ready([&] { after_backward([&] { ++callbacks; }); });
        sum(relu(conv2d(x, w, {}, {.padding = 1}))).backward();
        handle.remove();
        EXPECT_EQ(callbacks, 1);
      }
      gradients[t] = grad_of(w);
    });
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < count; ++t)
    for (std::size_t i = 0; i < gradients[t].size(); ++i) EXPECT_EQ(gradients[t][i], (t + 1) * gradients[0][i]) << t;
}

TEST(Engine, ASteadyStepAsksTheSystemForNoMemory) {
  Tensor w1(ops::full({16, 1, 5, 5}, 0.1), true), gamma(ops::ones({16}), true), beta(ops::zeros({16}), true);
  Tensor w2(ops::full({10, 16 * 14 * 14}, 0.1), true), b2(ops::zeros({10}), true);
  BatchNormState state{ops::zeros({16}), ops::ones({16})};
  const Array target = ops::zeros({20}, DType::i64);
  const auto step = [&](int number) {
    const Tensor x(ops::full({20, 1, 28, 28}, number));
    Tensor y = batch_norm(conv2d(x, w1, {}, {.padding = 2}), gamma, beta, state, {.relu = true, .max_pool_2x2 = true});
    y = linear(flatten(y, 1), w2, b2);
    for (Tensor* t : {&w1, &gamma, &beta, &w2, &b2}) t->zero_grad();
    cross_entropy(y, target).backward();
    for (Tensor* t : {&w1, &gamma, &beta, &w2, &b2}) {
      Array value = t->value();
      ops::add_(value, ops::map(functors::Affine{-0.01, 0}, t->grad()));
    }
  };
  for (int i = 0; i < 3; ++i) step(i);
  const MemoryStats before = memory_stats();
  EXPECT_GT(before.system_requests, 0u);
  EXPECT_GT(before.system_bytes, 20u * 16 * 28 * 28 * 4);
  for (int i = 0; i < 5; ++i) step(i);
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.system_requests, before.system_requests);
  EXPECT_EQ(after.system_bytes, before.system_bytes);
}

}  // namespace
}  // namespace tandem
