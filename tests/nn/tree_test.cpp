// Modules by name: walking the tree, containers, hooks, and state dicts of other models.
#include <tandem/core/ops.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/containers.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/init.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

#include <gtest/gtest.h>

#include "nn/names.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using nn::models::MnistNet;
using testing::counting;
using testing::expect_same;
using testing::Names;
using testing::names_of;

TEST(Tree, ModulesByName) {
  MnistNet net;
  EXPECT_EQ(names_of(net.modules()), (Names{"", "layer1", "layer1.0", "layer1.1", "layer1.2", "layer1.3", "layer2",
                                            "layer2.0", "layer2.1", "layer2.2", "layer2.3", "fc"}));
  EXPECT_EQ(&net.modules()[0].module, &net);
  EXPECT_EQ(&net.modules()[11].module, &net.fc);
  EXPECT_EQ(net.children().size(), 3u);
  EXPECT_EQ(&net.submodule("fc"), &net.fc);
  EXPECT_EQ(&net.submodule(""), &net);
  EXPECT_EQ(&net.submodule("layer2.1"), &net.layer2[1]);
  EXPECT_ERROR(net.submodule("layer3.1"), "'layer3.1'", "MnistNet has no 'layer3'", "layer1, layer2, fc");
  EXPECT_ERROR(net.submodule("layer1.9"), "Sequential has no '9'", "0, 1, 2, 3");
  EXPECT_ERROR(net.submodule("fc."), "Linear has no ''", "none");
}

TEST(Tree, ApplyVisitsChildrenFirst) {
  MnistNet net;
  Names classes;
  net.apply([&](nn::Module& module) { classes.push_back(module.class_name()); });
  EXPECT_EQ(classes, (Names{"Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d", "Sequential", "Conv2d", "BatchNorm2d", "ReLU",
                            "MaxPool2d", "Sequential", "Linear", "MnistNet"}));
  net.apply([](nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) nn::init::zeros_(linear->weight);
  });
  EXPECT_EQ(net.fc.weight.value().to_vector<float>(), std::vector<float>(15680, 0));
}

TEST(Tree, CountsAndFreezesParameters) {
  MnistNet net;
  EXPECT_EQ(net.parameter_count(), 29034);
  net.layer1.requires_grad_(false);
  sum(net(Tensor(ops::ones({2, 1, 28, 28})))).backward();
  for (const auto& [name, tensor] : net.parameters()) {
    EXPECT_EQ(tensor.requires_grad(), !name.starts_with("layer1")) << name;
    EXPECT_EQ(tensor.grad().defined(), !name.starts_with("layer1")) << name;
  }
  net.requires_grad_();
  for (const auto& [name, tensor] : net.parameters()) EXPECT_TRUE(tensor.requires_grad()) << name;
}

TEST(Tree, ToDtypeConvertsWhatIsFloating) {
  MnistNet net;
  const Tensor handle = net.fc.weight;
  net.to(DType::f64);
  for (const auto& [name, array] : net.state_dict())
    EXPECT_EQ(array.dtype(), name.ends_with("num_batches_tracked") ? DType::i64 : DType::f64) << name;
  EXPECT_EQ(handle.dtype(), DType::f64);
  nn::Linear linear(3, 2);
  linear(Tensor(counting({4, 3}))).backward({.gradient = ops::ones({4, 2})});
  linear.to(DType::f64);
  EXPECT_EQ(linear.weight.grad().dtype(), DType::f64);
  linear(Tensor(counting({4, 3}, DType::f64))).backward({.gradient = ops::ones({4, 2}, DType::f64)});
  EXPECT_EQ(linear.bias.grad().to_vector<double>(), (std::vector<double>{8, 8}));
  EXPECT_ERROR(linear.to(DType::i64), "floating", "i64");
  linear.bias.set_grad_buffer(ops::zeros({2}, DType::f64));
  EXPECT_ERROR(linear.to(DType::f32), "communication bucket");
}

struct Attention : nn::Module {
  nn::Linear& projection = add("projection", nn::Linear(3, 3));
  using nn::Module::forward;
  Tensor forward(const Tensor& query, const Tensor& key, double scale) {
    return projection(query) * projection(key) * scale;
  }
  Tensor operator()(const Tensor& query, const Tensor& key, double scale) {
    return called([&] { return forward(query, key, scale); });
  }
};

TEST(Tree, ForwardMayTakeWhatItWants) {
  Attention attention;
  int calls = 0;
  attention.on_forward([&](nn::Module& module, const Tensor& output) {
    ++calls;
    EXPECT_EQ(&module, &attention);
    EXPECT_EQ(output.shape(), (Shape{2, 3}));
  });
  const Tensor x(counting({2, 3}));
  attention(x, x, 0.5);
  EXPECT_EQ(calls, 1);
  nn::Module& module = attention;
  EXPECT_ERROR(module(x), "Attention has no forward(const Tensor&)");
  nn::ModuleList list;
  EXPECT_ERROR(list.forward(x), "ModuleList has no forward");
}

TEST(Tree, ForwardHooksRunAfterEveryCallUntilRemoved) {
  nn::Sequential net{nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::ReLU(), nn::MaxPool2d(2)};
  const Tensor x(counting({1, 1, 6, 6}));
  net.eval();
  const Array expected = net(x).value();
  std::vector<Shape> shapes;
  std::vector<HookHandle> handles;
  for (nn::Module& module : net)
    handles.push_back(module.on_forward([&](nn::Module&, const Tensor& y) { shapes.push_back(y.shape()); }));
  HookHandle once;
  once = net.on_forward([&](nn::Module&, const Tensor&) { once.remove(); });
  testing::expect_close(expected, net(x).value(), 1e-6, "one module at a time");
  EXPECT_EQ(shapes, (std::vector<Shape>{{1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 2, 2}}));
  EXPECT_FALSE(net.has_forward_hooks());
  nn::Sequential moved(std::move(net));
  for (auto& handle : handles) handle.remove();
  moved(x);
  EXPECT_EQ(shapes.size(), 4u);
}

TEST(Containers, ModuleList) {
  struct Net : nn::Module {
    nn::ModuleList& blocks = add("blocks", nn::ModuleList());
    Net() {
      for (int i = 0; i < 3; ++i) blocks.push_back(nn::Linear(4, 4));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (nn::Module& block : blocks) y = block(y);
      return y;
    }
  } net;
  EXPECT_EQ(names_of(net.state_dict()), (Names{"blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
                                               "blocks.2.weight", "blocks.2.bias"}));
  EXPECT_EQ(net.blocks.size(), 3);
  EXPECT_EQ(&net.blocks[-1], &net.blocks[2]);
  EXPECT_EQ(net.blocks.at<nn::Linear>(1).weight.shape(), (Shape{4, 4}));
  EXPECT_ERROR(net.blocks[3], "ModuleList", "no module 3", "size is 3");
  EXPECT_ERROR(net.blocks[-4], "-4");
  EXPECT_ERROR(net.blocks.at<nn::ReLU>(1), "'1' is a Linear(in=4, out=4)");
  EXPECT_EQ(net(Tensor(counting({2, 4}))).shape(), (Shape{2, 4}));
  EXPECT_TRUE(nn::ModuleList().empty());

  nn::ModuleList moved = nn::ModuleList{nn::Linear(4, 2), nn::ReLU()};
  EXPECT_EQ(names_of(moved.state_dict()), (Names{"0.weight", "0.bias"}));
  EXPECT_EQ(moved.at<nn::Linear>(0).weight.shape(), (Shape{2, 4}));
  EXPECT_EQ(moved[1].describe(), "ReLU");
}

TEST(Containers, ModuleDict) {
  nn::ModuleDict heads;
  heads.insert("small", nn::Linear(4, 2));
  heads.insert("large", nn::Linear(4, 8));
  EXPECT_EQ(names_of(heads.parameters()), (Names{"small.weight", "small.bias", "large.weight", "large.bias"}));
  EXPECT_TRUE(heads.contains("large"));
  EXPECT_FALSE(heads.contains("huge"));
  EXPECT_EQ(heads["large"](Tensor(counting({1, 4}))).shape(), (Shape{1, 8}));
  EXPECT_EQ(heads.at<nn::Linear>("small").weight.dim(0), 2);
  EXPECT_EQ(heads.size(), 2);
  EXPECT_ERROR(heads.at("huge"), "'huge'", "small, large");
  EXPECT_ERROR(heads.insert("small", nn::ReLU()), "'small' already");
  EXPECT_ERROR(nn::ModuleDict().at("a"), "none");
}

TEST(Containers, SequentialGrows) {
  nn::Sequential net;
  net.push_back(nn::Linear(4, 3));
  net.push_back([](const Tensor& x) { return x * 2; });
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  net.push_back(shared);
  net.push_back(nn::ReLU());
  net.push_back(shared);
  EXPECT_EQ(net.size(), 5);
  EXPECT_EQ(names_of(net.parameters()), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(names_of(net.state_dict()).back(), "4.bias");
  EXPECT_EQ(names_of(net.modules()), (Names{"", "0", "1", "2", "3"}));
  EXPECT_EQ(&net[2], shared.get());
  EXPECT_EQ(&net.at<nn::Linear>(-1), shared.get());
  const Tensor x(counting({2, 4}));
  expect_same(net.run(net.run(x, 0, 2), 2, 5).value(), net(x).value(), "in two parts");
  EXPECT_ERROR(net.run(x, 2, 6), "2 to 6", "size is 5");
}

TEST(StateDict, NotStrictLoadsWhatFits) {
  nn::Linear linear(2, 2);
  const auto bias = linear.bias.value().to_vector<float>();
  const auto mismatch = linear.load_state_dict({{"weight", counting({2, 2})}, {"extra", ops::ones({3})}}, false);
  EXPECT_EQ(mismatch.missing, (Names{"bias (2)"}));
  EXPECT_EQ(mismatch.unexpected, (Names{"extra (3)"}));
  EXPECT_EQ(linear.weight.value().to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(linear.bias.value().to_vector<float>(), bias);
  EXPECT_ERROR(linear.load_state_dict({{"weight", counting({3, 2})}}, false), "weight: got (3, 2)",
               "this model has (2, 2)");
  const auto none = linear.load_state_dict(linear.state_dict());
  EXPECT_TRUE(none.missing.empty() && none.unexpected.empty());
}

TEST(StateDict, GuessesPrefixes) {
  MnistNet net;
  auto state = net.state_dict();
  for (auto& [name, array] : state) name = "backbone." + name;
  EXPECT_ERROR(net.load_state_dict(state), "with the prefix \"backbone.\"", "remove the prefix");
  EXPECT_ERROR(net.load_state_dict(net.layer2.state_dict()), "belong to \"layer2\"", "\"layer2.\"");
  EXPECT_ERROR(net.load_state_dict({{"w", ops::ones({1})}}),
               "load_state_dict(state, false) loads the tensors that fit");
  nn::Sequential outer;
  outer.push_back(nn::Sequential{nn::Linear(2, 2)});
  EXPECT_ERROR(outer.load_state_dict(nn::Linear(2, 2).state_dict()), "belong to \"0.0\"", "\"0.0.\"");
}

TEST(StateDict, TakesNamesThatPyTorchsWrappersChanged) {
  manual_seed(1);
  const MnistNet source;
  for (const std::string prefix : {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."}) {
    manual_seed(2);
    MnistNet net;
    auto state = source.state_dict();
    for (auto& [name, array] : state) name = prefix + name;
    net.load_state_dict(state);
    for (std::size_t i = 0; i < state.size(); ++i)
      expect_same(state[i].array, net.state_dict()[i].array, state[i].name);
  }
}

// A module with names that begin like those of a wrapper.
TEST(StateDict, KeepsOwnNamesThatLookLikeAWrappers) {
  struct Outer : nn::Module {
    nn::Linear& module = add("module", nn::Linear(2, 2));
  } outer;
  outer.load_state_dict(outer.state_dict());
  for (const std::string prefix : {"", "module.", "module.module."})
    outer.load_state_dict({{prefix + "weight", ops::ones({2, 2})}, {prefix + "bias", ops::ones({2})}});
  EXPECT_EQ(outer.module.bias.value().to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(outer.load_state_dict({{"module.bias", ops::zeros({2})}}, false).missing, (Names{"module.weight (2, 2)"}));
  EXPECT_EQ(outer.module.bias.value().to_vector<float>(), (std::vector<float>{0, 0}));
}

// Since version 0.4.1, PyTorch's batch norm has counted its batches.
TEST(StateDict, ABatchNormWithoutItsCountStartsAtZero) {
  nn::Sequential net{nn::Linear(2, 3), nn::BatchNorm1d(3)};
  auto& norm = dynamic_cast<nn::BatchNorm1d&>(net.submodule("1"));
  net(Tensor(ops::ones({4, 2})));
  EXPECT_EQ(norm.num_batches_tracked.item(), 1);
  auto state = net.state_dict();
  std::erase_if(state, [](const auto& entry) { return entry.name == "1.num_batches_tracked"; });
  const auto mismatch = net.load_state_dict(state);
  EXPECT_TRUE(mismatch.missing.empty());
  EXPECT_EQ(norm.num_batches_tracked.item(), 0);
  // If a batch norm is not in the state at all, its count is missing like everything else.
  Array count = norm.num_batches_tracked.value();
  count.fill(3);
  EXPECT_EQ(net.load_state_dict({{"0.bias", ops::ones({3})}}, false).missing.size(), 6u);
  EXPECT_EQ(norm.num_batches_tracked.item(), 3);
  nn::BatchNorm1d alone(3);
  state = alone.state_dict();
  state.pop_back();
  alone.load_state_dict(state);
  // Anything else that is missing is an error.
  state.pop_back();
  EXPECT_ERROR(alone.load_state_dict(state), "1 missing", "running_var");
}

TEST(StateDict, CutsLongLists) {
  nn::Sequential net;
  for (int i = 0; i < 40; ++i) net.push_back(nn::Linear(1, 1));
  EXPECT_ERROR(net.load_state_dict({}), "80 missing:", "and 60 more");
}

}  // namespace
}  // namespace tandem
