#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/init.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/nn/pooling.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>

#include "nn/names.h"
#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using nn::models::MnistNet;
using testing::array_of;
using testing::counting;
using testing::expect_close;
using testing::expect_same;
using testing::Names;
using testing::names_of;

// Returns a copy, because state_dict() returns the module's own arrays.
std::vector<NamedArray> snapshot(const nn::Module& module) {
  auto state = module.state_dict();
  for (auto& [name, array] : state) array = array.clone();
  return state;
}

Tensor image(const Shape& shape) {
  const auto n = static_cast<double>(shape.product());
  return Tensor(ops::map(functors::Affine{2 / n, -1}, counting(shape)));
}

TEST(Module, StateDictHasPyTorchsNamesInItsOrder) {
  const MnistNet net;
  EXPECT_EQ(names_of(net.state_dict()),
            (Names{"layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer1.1.running_mean",
                   "layer1.1.running_var", "layer1.1.num_batches_tracked", "layer2.0.weight", "layer2.0.bias",
                   "layer2.1.weight", "layer2.1.bias", "layer2.1.running_mean", "layer2.1.running_var",
                   "layer2.1.num_batches_tracked", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(net.parameters()),
            (Names{"layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer2.0.weight",
                   "layer2.0.bias", "layer2.1.weight", "layer2.1.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(net.buffers()),
            (Names{"layer1.1.running_mean", "layer1.1.running_var", "layer1.1.num_batches_tracked",
                   "layer2.1.running_mean", "layer2.1.running_var", "layer2.1.num_batches_tracked"}));
  for (const auto& [name, tensor] : net.parameters()) EXPECT_TRUE(tensor.requires_grad()) << name;
  for (const auto& [name, tensor] : net.buffers()) EXPECT_FALSE(tensor.requires_grad()) << name;
}

TEST(Module, StateDictHasPyTorchsShapesAndDtypes) {
  const std::vector<Shape> shapes = {{16, 1, 5, 5}, {16}, {16}, {16}, {16}, {16}, {},         {32, 16, 5, 5},
                                     {32},          {32}, {32}, {32}, {32}, {},   {10, 1568}, {10}};
  const auto state = MnistNet().state_dict();
  ASSERT_EQ(state.size(), shapes.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].array.shape(), shapes[i]) << state[i].name;
    EXPECT_EQ(state[i].array.dtype(), shapes[i].ndim() == 0 ? DType::i64 : DType::f32) << state[i].name;
  }
}

TEST(Module, InitialWeightsEqualPyTorchsToTheBit) {
  const testing::Golden golden("init.safetensors");
  for (const int seed : {0, 1, 42}) {
    manual_seed(seed);
    const MnistNet net;
    int found = 0;
    for (const auto& [name, tensor] : net.parameters()) {
      const std::string key = "seed" + std::to_string(seed) + '/' + name;
      if (golden.has(key)) {
        expect_same(golden[key], tensor.value(), key);
        ++found;
      } else {
        EXPECT_EQ(tensor.value().to_vector<float>(), std::vector<float>(tensor.numel(), name.ends_with("weight")))
            << name;
      }
    }
    EXPECT_EQ(found, 6);
  }
  EXPECT_EQ(std::ranges::count_if(golden.arrays(), [](const auto& entry) { return entry.first.starts_with("seed"); }),
            18);
}

TEST(Module, BatchNormStartsAsPyTorchs) {
  const nn::BatchNorm2d norm(3);
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(norm.running_var.value().to_vector<float>(), std::vector<float>(3, 1));
  EXPECT_EQ(norm.num_batches_tracked.item(), 0);
}

TEST(Module, LayersRefuseNonsense) {
  EXPECT_ERROR(nn::Linear(0, 3), "Linear", "0");
  EXPECT_ERROR(nn::Conv2d(3, -1, 3), "Conv2d", "-1");
  EXPECT_ERROR(nn::BatchNorm2d(0), "BatchNorm2d", "0");
  EXPECT_ERROR(nn::Linear(4, 3)(Tensor(counting({2, 5}))), "linear", "(2, 5)", "(3, 4)");
  EXPECT_ERROR(nn::Linear(4, 3)(Tensor(counting({5}))), "linear", "(5)");
  EXPECT_EQ(nn::Linear(4, 3)(Tensor(counting({4}))).shape(), Shape{3});
  EXPECT_ERROR(nn::BatchNorm2d(3)(Tensor(counting({2, 4, 2, 2}))), "batch_norm", "(2, 4, 2, 2)");
  EXPECT_ERROR(nn::BatchNorm2d(3)(Tensor(counting({1, 3, 1, 1}))), "batch_norm", "(1, 3, 1, 1)", "1 value per channel",
               "SyncBatchNorm", "drop_last");
  EXPECT_ERROR(nn::init::fan_in({3}), "2 dimensions", "(3)");
}

TEST(Module, LayersWithoutBias) {
  const nn::Linear linear(4, 3, {.bias = false});
  EXPECT_EQ(names_of(linear.parameters()), (Names{"weight"}));
  const nn::Conv2d conv(2, 3, {3, 5}, {.bias = false});
  EXPECT_EQ(names_of(conv.parameters()), (Names{"weight"}));
  EXPECT_EQ(conv.weight.shape(), (Shape{3, 2, 3, 5}));
  EXPECT_EQ(nn::Linear(4, 3, {.bias = false})(Tensor(counting({2, 4}))).shape(), (Shape{2, 3}));
  EXPECT_EQ(nn::Conv2d(2, 3, 3, {.bias = false})(Tensor(counting({1, 2, 4, 4}))).shape(), (Shape{1, 3, 2, 2}));
}

TEST(Module, LoadStateDictTakesAnotherModelsState) {
  manual_seed(1);
  const MnistNet source;
  manual_seed(2);
  MnistNet target;
  const Tensor handle = target.fc.weight;
  auto state = snapshot(source);
  std::swap(state.front(), state.back());  // the order does not matter
  target.load_state_dict(state);
  EXPECT_EQ(handle.value().raw(), target.fc.weight.value().raw());
  const auto loaded = target.state_dict(), expected = source.state_dict();
  for (std::size_t i = 0; i < expected.size(); ++i) expect_same(expected[i].array, loaded[i].array, expected[i].name);
}

TEST(Module, LoadStateDictConvertsDtypes) {
  nn::Linear linear(2, 2);
  linear.load_state_dict({{"weight", counting({2, 2}, DType::f64)}, {"bias", ops::ones({2}, DType::bf16)}});
  EXPECT_EQ(linear.weight.dtype(), DType::f32);
  EXPECT_EQ(linear.weight.value().to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(linear.bias.value().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Module, LoadStateDictListsEveryProblemAndChangesNothing) {
  MnistNet net;
  const auto before = snapshot(net);
  auto state = snapshot(net);
  for (auto& [name, array] : state)
    if (is_floating(array.dtype())) array.fill(5);
  state[0].array = ops::ones({16, 3, 5, 5});  // layer1.0.weight
  state[14].name = "fully.weight";            // fc.weight
  state.erase(state.begin() + 8);             // layer2.0.bias
  state.push_back({"module.extra", ops::ones({3})});
  EXPECT_ERROR(net.load_state_dict(state), "MnistNet", "1 of another shape:\n    layer1.0.weight: got (16, 3, 5, 5)",
               "this model has (16, 1, 5, 5)", "2 missing:\n    layer2.0.bias (32)\n    fc.weight (10, 1568)",
               "2 unexpected:\n    fully.weight (10, 1568)\n    module.extra (3)");
  EXPECT_ERROR(net.load_state_dict({}), "16 missing:\n    layer1.0.weight", "fc.bias");
  const auto after = net.state_dict();
  for (std::size_t i = 0; i < after.size(); ++i) expect_same(before[i].array, after[i].array, after[i].name);
}

TEST(Module, TrainAndEvalReachEveryModule) {
  MnistNet net;
  auto& norm = dynamic_cast<nn::BatchNorm2d&>(*net.layer1.children()[1].second);
  EXPECT_TRUE(net.is_training());
  net.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_FALSE(norm.is_training());
  net.train();
  EXPECT_TRUE(norm.is_training());
  net.train(false);
  EXPECT_FALSE(net.fc.is_training());
}

TEST(Module, BatchNormTracksInTrainingAndOnlyThen) {
  nn::BatchNorm2d norm(2, {.momentum = 0.5});
  const Tensor x(Array::from(std::vector<float>{1, 3, 10, 10}, {1, 2, 1, 2}));
  norm(x);
  EXPECT_EQ(norm.num_batches_tracked.item(), 1);
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), (std::vector<float>{1, 5}));
  EXPECT_EQ(norm.running_var.value().to_vector<float>(), (std::vector<float>{1.5f, 0.5f}));  // unbiased: 2 and 0
  norm.eval();
  const auto y = norm(x).value().to_vector<float>();
  EXPECT_NEAR(y[0], 0, 1e-6);
  EXPECT_NEAR(y[1], 2 / std::sqrt(1.5), 1e-5);
  EXPECT_EQ(norm.num_batches_tracked.item(), 1);
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), (std::vector<float>{1, 5}));
}

TEST(Module, BatchNormOfNoImagesKeepsItsStatistics) {
  nn::BatchNorm2d norm(2);
  EXPECT_EQ(norm(Tensor(ops::zeros({0, 2, 3, 3}))).shape(), (Shape{0, 2, 3, 3}));
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(norm.running_var.value().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Module, BatchNormWithoutMomentumAveragesAllBatches) {
  nn::BatchNorm2d norm(1, {.momentum = std::nullopt});
  for (const float v : {1.f, 2.f, 6.f}) norm(Tensor(ops::full({2, 1, 1, 1}, v)));
  EXPECT_NEAR(norm.running_mean.item(), 3, 1e-6);
  EXPECT_NEAR(norm.running_var.item(), 0, 1e-6);
}

TEST(Module, ZeroGrad) {
  MnistNet net;
  sum(net(image({2, 1, 28, 28}))).backward();
  for (const auto& [name, tensor] : net.parameters()) EXPECT_TRUE(tensor.grad().defined()) << name;
  net.zero_grad();
  for (const auto& [name, tensor] : net.parameters()) EXPECT_FALSE(tensor.grad().defined()) << name;
}

TEST(Module, MovesAndKeepsItsReferences) {
  static_assert(!std::is_copy_constructible_v<nn::Linear> && !std::is_copy_constructible_v<MnistNet>);
  static_assert(std::is_move_constructible_v<MnistNet>);
  MnistNet first;
  const Tensor x = image({2, 1, 28, 28});
  first.eval();
  const Array expected = first(x).value();
  const Tensor weight = first.fc.weight;
  MnistNet second(std::move(first));
  EXPECT_FALSE(second.is_training());
  EXPECT_TRUE(second.fc.weight.same_as(weight));
  EXPECT_EQ(names_of(second.parameters()).size(), 10u);
  expect_same(expected, second(x).value(), "output after the move");
  second.train();
  EXPECT_TRUE(second.layer2.is_training());
}

struct Shared : nn::Module {
  explicit Shared(const std::shared_ptr<nn::Linear>& both) {
    add_child("a", both);
    add_child("b", both);
  }
  Tensor forward(const Tensor& x) override { return (*children()[1].second)(relu((*children()[0].second)(x))); }
};

TEST(Module, ASharedParameterAppearsOnceAmongParameters) {
  const auto both = std::make_shared<nn::Linear>(3, 3);
  Shared net(both);
  EXPECT_EQ(names_of(net.parameters()), (Names{"a.weight", "a.bias"}));
  EXPECT_EQ(names_of(net.state_dict()), (Names{"a.weight", "a.bias", "b.weight", "b.bias"}));  // as in PyTorch
  int calls = 0;
  both->weight.on_grad_ready([&] { ++calls; });
  sum(net(Tensor(counting({2, 3})))).backward();
  EXPECT_EQ(calls, 1);
  net.load_state_dict(snapshot(net));
}

struct Named : nn::Module {
  using nn::Module::add;
  using nn::Module::add_buffer;
  using nn::Module::add_parameter;
  Tensor forward(const Tensor& x) override { return x; }
};

TEST(Module, NamesAreChecked) {
  Named module;
  module.add("child", nn::ReLU());
  module.add_parameter("weight", ops::ones({1}));
  EXPECT_ERROR(module.add("child", nn::ReLU()), "'child'", "already");
  EXPECT_ERROR(module.add("weight", nn::ReLU()), "'weight'");
  EXPECT_ERROR(module.add_buffer("weight", ops::ones({1})), "'weight'");
  EXPECT_ERROR(module.add_parameter("child", ops::ones({1})), "'child'");
  EXPECT_ERROR(module.add_parameter("a.b", ops::ones({1})), "'a.b'");
  EXPECT_ERROR(module.add("", nn::ReLU()), "''");
  EXPECT_ERROR(module.add_parameter("count", ops::ones({1}, DType::i64)), "i64");
  EXPECT_EQ(names_of(module.state_dict()), (Names{"weight"}));
}

// The second layer is a mere member, so the model does not know it.
struct Forgetful : nn::Module {
  nn::Linear& first = add("first", nn::Linear(2, 3));
  nn::Linear second = nn::Linear(3, 1);
  Tensor forward(const Tensor& x) override { return second(first(x)); }
};

std::string warnings_of(const std::function<void()>& work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Module, WarnsOfALayerThatWasNotAdded) {
  const Tensor x(ops::ones({4, 2}));
  Forgetful net;
  EXPECT_EQ(warnings_of([&] {
              const NoGrad no_grad;
              net(x);
            }),
            "");
  const std::string said = warnings_of([&] { net(x); });
  EXPECT_TRUE(said.starts_with("warning: Forgetful calls Linear(in=3, out=1), which was not added to it")) << said;
  EXPECT_EQ(warnings_of([&] { net(x); }), "") << "it warns once";

  struct Head : nn::Module {
    nn::Linear& fc = add("fc", nn::Linear(2, 3));
    Tensor forward(const Tensor& x) override { return fc(x); }
  } head;
  head.fc = nn::Linear(2, 5);
  EXPECT_EQ(warnings_of([&] { head(x); }), "") << "a module that is assigned to another one is in its place";

  Forgetful frozen;
  frozen.second.requires_grad_(false);
  EXPECT_EQ(warnings_of([&] { frozen(x); }), "");
  nn::Sequential whole{nn::Linear(2, 3), nn::Sequential{nn::Linear(3, 1), nn::ReLU()}};
  EXPECT_EQ(warnings_of([&] { whole(x); }), "");
}

TEST(Sequential, NumbersModulesAndFunctionsAlike) {
  nn::Sequential net{nn::Linear(4, 3), [](const Tensor& x) { return x * 2; }, nn::Sequential{nn::Linear(3, 2)},
                     nn::ReLU()};
  EXPECT_EQ(names_of(net.parameters()), (Names{"0.weight", "0.bias", "2.0.weight", "2.0.bias"}));
  ASSERT_EQ(net.children().size(), 4u);
  EXPECT_EQ(net.children()[3].first, "3");
  const Tensor x(counting({2, 4}));
  const auto& inner = dynamic_cast<nn::Linear&>(*net.children()[2].second->children()[0].second);
  const auto& outer = dynamic_cast<nn::Linear&>(*net.children()[0].second);
  expect_same(relu(linear(linear(x, outer.weight, outer.bias) * 2, inner.weight, inner.bias)).value(), net(x).value(),
              "output");
  nn::Sequential nested;
  nested.push_back(nn::Sequential{nn::Linear(4, 3)});
  EXPECT_EQ(names_of(nested.parameters()), (Names{"0.0.weight", "0.0.bias"}));
#if !defined(__clang__) || __clang_major__ > 19
  const nn::Sequential alone{nn::Sequential{nn::Linear(4, 3)}};
  EXPECT_EQ(names_of(alone.parameters()), (Names{"0.0.weight", "0.0.bias"}));
#endif
  nn::Sequential nothing{};
  EXPECT_TRUE(nothing(x).same_as(x));
}

TEST(Sequential, TakesFunctionsOfTheLibrary) {
  nn::Sequential net{relu, [](const Tensor& x) { return flatten(x, 1); }};
  EXPECT_EQ(net(Tensor(counting({2, 3, 4}))).shape(), (Shape{2, 12}));
}

TEST(Sequential, DrawsInitialWeightsFromLeftToRight) {
  manual_seed(5);
  const nn::Linear first(3, 4), second(4, 2);
  manual_seed(5);
  const nn::Sequential net{nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2)};
  const auto parameters = net.parameters();
  expect_same(first.weight.value(), parameters[0].tensor.value(), "0.weight");
  expect_same(second.weight.value(), parameters[2].tensor.value(), "2.weight");
}

// Expects that a Sequential has the same values, gradients and running statistics as its modules one at a time. It runs
// consecutive batch norm, ReLU and pooling modules as one operation.
void expect_equal_to_steps(const std::function<nn::Sequential()>& make, bool training, const Shape& shape) {
  manual_seed(3);
  nn::Sequential fused = make();
  manual_seed(3);
  nn::Sequential steps = make();
  fused.train(training);
  steps.train(training);
  const Tensor x(image(shape).value(), true), same_x(x.value(), true);
  const Tensor y = fused(x);
  Tensor z = same_x;
  for (const auto& [name, module] : steps.children()) z = (*module)(z);
  expect_close(z.value(), y.value(), 1e-6, "output");
  const Array grad = ops::map(functors::Affine{0.3, -1}, counting(y.shape()));
  y.backward({.gradient = grad});
  z.backward({.gradient = grad});
  expect_close(same_x.grad(), x.grad(), 1e-5, "gradient of the input");
  const auto a = fused.parameters(), b = steps.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) expect_close(b[i].tensor.grad(), a[i].tensor.grad(), 1e-5, a[i].name);
  const auto s = fused.state_dict(), t = steps.state_dict();
  for (std::size_t i = 0; i < s.size(); ++i) expect_close(t[i].array, s[i].array, 1e-6, s[i].name);
}

TEST(Sequential, FusesWithoutChangingWhatIsComputed) {
  using nn::BatchNorm2d, nn::MaxPool2d, nn::ReLU, nn::Sequential;
  for (const bool training : {true, false}) {
    for (const Shape& shape : {Shape{3, 16, 6, 6}, Shape{2, 16, 7, 5}}) {
      expect_equal_to_steps([] { return Sequential{BatchNorm2d(16), ReLU()}; }, training, shape);
      expect_equal_to_steps([] { return Sequential{BatchNorm2d(16), ReLU(), MaxPool2d(2)}; }, training, shape);
      expect_equal_to_steps(
          [] {
            return Sequential{BatchNorm2d(16), ReLU(), MaxPool2d(2, {.stride = 2})};
          },
          training, shape);
      expect_equal_to_steps(
          [] {
            return Sequential{ReLU(), BatchNorm2d(16), ReLU(), BatchNorm2d(16)};
          },
          training, shape);
      // Here a Sequential pools before it applies ReLU.
      expect_equal_to_steps([] { return Sequential{ReLU(), MaxPool2d(2)}; }, training, shape);
      expect_equal_to_steps(
          [] {
            return Sequential{ReLU(), MaxPool2d(3, {.stride = 2, .padding = 1}), ReLU()};
          },
          training, shape);
      // These modules are not fused, because of their pooling or their order.
      expect_equal_to_steps(
          [] {
            return Sequential{BatchNorm2d(16), ReLU(), MaxPool2d(3, {.stride = 2, .padding = 1})};
          },
          training, shape);
      expect_equal_to_steps(
          [] {
            return Sequential{BatchNorm2d(16), ReLU(), MaxPool2d(2, {.stride = 1})};
          },
          training, shape);
      expect_equal_to_steps(
          [] {
            return Sequential{BatchNorm2d(16), ReLU(), MaxPool2d(2, {.stride = 2, .padding = 1})};
          },
          training, shape);
      expect_equal_to_steps([] { return Sequential{BatchNorm2d(16), MaxPool2d(2), ReLU()}; }, training, shape);
      expect_equal_to_steps([] { return Sequential{BatchNorm2d(16)}; }, training, shape);
    }
  }
}

TEST(Sequential, PoolsAfterReluWhereTheOrderMatters) {
  using nn::MaxPool2d, nn::ReLU, nn::Sequential;
  // A window with only padding is -infinity, and ReLU would change it to 0.
  Sequential padded{ReLU(), MaxPool2d(Extent(1, 2), {.stride = 1, .padding = Extent(0, 1), .dilation = Extent(1, 7)})};
  EXPECT_EQ(padded(image({1, 1, 1, 6})).item(), -INFINITY);
  Sequential in_place{ReLU({.inplace = true}), MaxPool2d(2)};
  const Tensor x(ops::full({1, 1, 2, 2}, -1));
  in_place(x);
  EXPECT_EQ(x.value().to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  struct Negated : ReLU {
    Tensor forward(const Tensor& t) override { return relu(-t); }
  };
  Sequential derived{Negated(), MaxPool2d(2)};
  EXPECT_EQ(derived(Tensor(Array::from(std::vector<float>{-3, -1, 1, 2}, {1, 1, 2, 2}))).item(), 3);
}

TEST(Sequential, TheSameModuleTwiceIsCountedTwice) {
  nn::Sequential net{nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2)};
  const Tensor x = image({2, 16, 4, 4});
  net(x);
  net(x);
  EXPECT_EQ(net.buffers()[2].tensor.item(), 2);
}

TEST(Init, UniformStaysInItsBounds) {
  Generator generator(1);
  for (const float v : nn::init::uniform({1000}, 0.25, generator).to_vector<float>()) {
    EXPECT_GE(v, -0.25f);
    EXPECT_LT(v, 0.25f);
  }
  EXPECT_EQ(nn::init::fan_in({16, 3, 5, 5}), 75);
  EXPECT_EQ(nn::init::fan_in({10, 1568}), 1568);
}

template <class... Layers>
constexpr bool are_assignable = (std::is_move_assignable_v<Layers> && ...);

// A layer can be assigned to a member that is a layer, because no layer has constant members.
TEST(Module, LayersCanBeAssigned) {
  static_assert(are_assignable<nn::MaxPool2d, nn::MaxPool1d, nn::AvgPool2d, nn::AvgPool1d, nn::AdaptiveAvgPool2d,
                               nn::AdaptiveAvgPool1d, nn::AdaptiveMaxPool2d, nn::Flatten, nn::Unflatten>);
  static_assert(are_assignable<nn::Linear, nn::Conv2d, nn::BatchNorm2d, nn::ReLU, nn::Sequential>);
  nn::MaxPool2d pool(2);
  pool = nn::MaxPool2d(3, {.stride = 1, .padding = 1});
  EXPECT_EQ(pool(Tensor(counting({1, 1, 4, 4}))).shape(), (Shape{1, 1, 4, 4}));
  nn::Linear linear(2, 3);
  linear = nn::Linear(5, 3);
  EXPECT_EQ(linear.weight.shape(), (Shape{3, 5}));
  ASSERT_EQ(linear.parameters().size(), 2u);
  EXPECT_TRUE(linear.parameters()[0].tensor.same_as(linear.weight));
}

// A state dict always shows the current weights, even after an optimizer has moved them into its arena.
TEST(Module, AStateDictFollowsTheParameters) {
  MnistNet net;
  const auto before = net.state_dict();
  const Array weight = net.parameters()[0].tensor.value();
  const auto kept = clone(before);
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});
  const auto after = net.state_dict();
  for (const auto& [name, tensor] : net.parameters()) Array(tensor.value()).fill(7);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].array.raw(), after[i].array.raw()) << before[i].name;
    EXPECT_NE(kept[i].array.raw(), after[i].array.raw()) << before[i].name;
  }
  EXPECT_EQ(weight.select(0, 0).to_vector<float>()[0], 7);
  EXPECT_NE(kept[0].array.to_vector<float>()[0], 7);
  // A second optimizer moves the weights again.
  optim::Adam other(net.parameters(), {});
  EXPECT_EQ(before[0].array.raw(), net.state_dict()[0].array.raw());
  EXPECT_EQ(before[0].array.to_vector<float>()[0], 7);
}

TEST(Module, PartsOfAStateDict) {
  const Array a = array_of({1}), b = array_of({2});
  const std::vector<NamedArray> state{{"encoder.weight", a}, {"head.weight", b}};
  const auto part = renamed(state, "encoder.", "");
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].name, "weight");
  EXPECT_EQ(part[0].array.raw(), a.raw());
  const auto all = renamed(state, "", "module.");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].name, "module.head.weight");
}

// A batch norm that stays in evaluation mode, whatever the mode of its model is.
struct FrozenNorm : nn::BatchNorm2d {
  explicit FrozenNorm(std::int64_t channels) : nn::BatchNorm2d(channels) { nn::BatchNorm2d::train(false); }
  void train(bool) override {}
};

TEST(Module, ModesAreRestoredAsTheyWere) {
  struct Net : nn::Module {
    nn::BatchNorm2d& first = add("first", nn::BatchNorm2d(2));
    nn::BatchNorm2d& second = add("second", nn::BatchNorm2d(2));
    FrozenNorm& frozen = add("frozen", FrozenNorm(2));
  } net;
  net.train();
  EXPECT_FALSE(net.frozen.is_training());
  net.first.eval();
  {
    const nn::EvaluationMode evaluation(net);
    EXPECT_FALSE(net.is_training() || net.second.is_training());
  }
  EXPECT_TRUE(net.is_training() && net.second.is_training());
  EXPECT_FALSE(net.first.is_training() || net.frozen.is_training());
}

// A server answers with one model on several threads.
TEST(Module, SeveralThreadsInferWithOneModel) {
  MnistNet net;
  net.eval();
  std::vector<Tensor> images;
  std::vector<Array> expected;
  const NoGrad no_grad;
  for (int i = 0; i < 4; ++i) {
    images.push_back(image({1 + i, 1, 28, 28}));
    expected.push_back(net(images.back()).value());
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      const NoGrad of_this_thread;
      for (int i = 0; i < 12; ++i) {
        const auto which = static_cast<std::size_t>((thread + i) % 4);
        wrong += net(images[which]).value().to_vector<float>() != expected[which].to_vector<float>();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tandem
