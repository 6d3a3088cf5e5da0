#include <tandem/autograd/functions.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/sync_batch_norm.h>
#include <tandem/distributed/groups/forwarding_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <omp.h>
#include <support/arrays.h>
#include <support/golden.h>
#include <support/ranks.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace tandem::distributed {
namespace {

using nn::models::MnistNet;
using testing::expect_close;
using testing::expect_same;
using testing::Golden;
using testing::Group;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_catching;

using Sizes = std::vector<std::int64_t>;  // the number of samples that each rank has

Array part_of(const Array& whole, const Sizes& sizes, int rank) {
  const auto begin = std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
  return whole.slice(0, begin, begin + sizes[rank]).clone();
}

Array uniform(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  Generator generator(seed);
  std::vector<double> values(shape.product());
  for (auto& v : values) v = generator.uniform(-1.0, 1.0);
  return Array::from(values, shape).to(dtype);
}

// Expects that `array` is bitwise identical on all ranks.
void expect_same_on_all_ranks(Group group, const Array& array, const std::string& what) {
  std::vector<Array> all;
  for (int r = 0; r < group->size(); ++r) all.push_back(Array::empty(array.shape(), array.dtype()));
  group->all_gather(all, array)->wait();
  for (int r = 0; r < group->size(); ++r) expect_same(array, all[r], what + " of rank " + std::to_string(r));
}

Array sum_over_ranks(Group group, const Array& array) {
  const Array sum = array.clone();
  group->all_reduce(sum)->wait();
  return sum;
}

// Forwards all operations, and records those that were started, in order.
class RecordingGroup : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  std::shared_ptr<Work> start(Operation operation) override {
    started.push_back(operation.name);
    return ForwardingGroup::start(std::move(operation));
  }

  std::vector<std::string> started;
};

// Runs the layer of the golden file for three steps, on this rank's part of each batch.
void expect_layer_of_pytorch(Group group, const Golden& golden, const std::string& name, const Sizes& sizes) {
  const auto momentum = name == "momentum" ? std::optional(0.1) : std::nullopt;
  SyncBatchNorm norm(5, group, {.momentum = momentum});
  norm.load_state_dict({{"weight", golden[name + "/weight"]},
                        {"bias", golden[name + "/bias"]},
                        {"running_mean", ops::zeros({5})},
                        {"running_var", ops::ones({5})},
                        {"num_batches_tracked", ops::zeros({}, DType::i64)}});
  for (int step = 0; step < 3; ++step) {
    const std::string at = name + "/" + std::to_string(step) + "/";
    const auto mine = [&](const char* what) { return part_of(golden[at + what], sizes, group->rank()); };
    const Tensor x(mine("x"), true);
    const Tensor y = norm(x);
    norm.zero_grad();
    y.backward({.gradient = mine("grad_y")});
    expect_close(mine("y"), y.value(), 2e-5, at + "y");
    expect_close(mine("grad_x"), x.grad(), 2e-5, at + "grad_x");
    expect_close(golden[at + "grad_weight"], sum_over_ranks(group, norm.weight.grad()), 1e-5, at + "grad_weight");
    expect_close(golden[at + "grad_bias"], sum_over_ranks(group, norm.bias.grad()), 1e-5, at + "grad_bias");
    expect_close(golden[at + "running_mean"], norm.running_mean.value(), 1e-6, at + "running_mean");
    expect_close(golden[at + "running_var"], norm.running_var.value(), 1e-5, at + "running_var");
    expect_same_on_all_ranks(group, norm.running_mean.value(), at + "running_mean");
    expect_same_on_all_ranks(group, norm.running_var.value(), at + "running_var");
  }
  EXPECT_EQ(norm.num_batches_tracked.item(), 3);
}

TEST(SyncBatchNorm, equals_batch_norm_of_the_whole_batch_in_PyTorch) {
  const Golden golden("batch_norm.safetensors");
  for (const char* name : {"momentum", "cumulative"}) {
    expect_layer_of_pytorch(local_group(), golden, name, {11});
    for (const Sizes& sizes : {Sizes{7, 4}, Sizes{0, 11}, Sizes{5, 0, 6}, Sizes{1, 4, 0, 6}}) {
      run_ranks(static_cast<int>(sizes.size()),
                [&](Group group) { expect_layer_of_pytorch(group, golden, name, sizes); });
    }
  }
}

struct Trained {
  std::vector<double> losses;
  std::vector<NamedArray> state;
};

// Trains as in the golden file, on this rank's part of each batch.
Trained train(Group group, const Golden& golden, const Sizes& sizes, DType dtype = DType::f32) {
  manual_seed(0);
  MnistNet net;
  net.to(dtype);
  convert_sync_batch_norm(net, group);
  DistributedDataParallel ddp(net, group, {.buckets = {.first_bytes = 4096, .bytes = 16384}});
  const double lr = 0.02, momentum = 0.9;
  std::optional<optim::SGD> sgd;  // only for f32
  if (dtype == DType::f32) sgd.emplace(net.parameters(), optim::SGDOptions{.lr = lr, .momentum = momentum});
  std::vector<Array> velocities;
  const Array &images = golden["network/images"], &labels = golden["network/labels"];
  Trained result;
  for (int step = 0; step < images.dim(0); ++step) {
    const Array image = part_of(images.select(0, step), sizes, group->rank());
    const Array label = part_of(labels.select(0, step), sizes, group->rank());
    const Tensor logits = ddp(ops::zip(functors::Div{}, image.to(dtype), ops::scalar(255, dtype)));
    // DDP averages over ranks. This weight turns the result into the mean over samples. No samples have no mean.
    const double share = static_cast<double>(image.dim(0) * group->size()) / static_cast<double>(images.dim(1));
    const Tensor loss = share > 0 ? cross_entropy(logits, label) * share : sum(logits);
    net.zero_grad();
    loss.backward();
    if (sgd) {
      sgd->step();
    } else {
      std::size_t i = 0;
      for (const auto& [name, parameter] : net.parameters()) {
        if (step == 0) velocities.push_back(ops::zeros(parameter.shape(), dtype));
        Array& velocity = velocities[i++];
        velocity = ops::zip(functors::Add{}, ops::zip(functors::Mul{}, velocity, ops::scalar(momentum, dtype)),
                            parameter.grad());
        const Array change = ops::zip(functors::Mul{}, velocity, ops::scalar(lr, dtype));
        backend({}).zip(functors::Sub{}, parameter.value(), change, parameter.value());
      }
    }
    result.losses.push_back(sum_over_ranks(group, loss.value()).item() / group->size());
  }
  for (const auto& [name, array] : net.state_dict()) {
    expect_same_on_all_ranks(group, array, name);
    result.state.push_back({name, array.clone()});
  }
  return result;
}

// The learning rate is so high that rounding errors grow from step to step.
TEST(SyncBatchNorm, several_ranks_train_the_documents_network_like_one_and_like_PyTorch) {
  const Golden golden("batch_norm.safetensors");
  set_exact_convolutions(true);  // as in PyTorch
  const auto expect_equal = [&](const Trained& found, const Trained* single) {
    const auto losses = golden["network/losses"].to_vector<double>();
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(found.losses[i], losses[i], 1e-5) << "step " << i;
      if (single) {
        EXPECT_NEAR(found.losses[i], single->losses[i], 1e-5) << "step " << i;
      }
    }
    for (std::size_t i = 0; i < found.state.size(); ++i) {
      const auto& [name, array] = found.state[i];
      expect_close(golden["network/after/" + name], array, 1e-5, name);
      if (single) expect_close(single->state[i].array, array, 1e-5, name);
    }
  };
  const auto single = train(local_group(), golden, {24});
  expect_equal(single, nullptr);
  for (const Sizes& sizes : {Sizes{12, 12}, Sizes{5, 8, 11}, Sizes{10, 0, 14}, Sizes{6, 6, 6, 6}}) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
    run_ranks(static_cast<int>(sizes.size()), [&](Group group) {
      omp_set_num_threads(1);  // more threads would compete for the cores
      const auto found = train(group, golden, sizes);
      if (group->rank() == 0) expect_equal(found, &single);
    });
  }
  set_exact_convolutions(false);
}

// Compares a training run with one in f64. The sums of 5 x 5 tiles have ten times the errors of direct sums
// (core/cpu/conv/cook_toom_conv.h), so this run has about ten times the errors of PyTorch's.
TEST(SyncBatchNorm, tiles_train_the_documents_network_nearly_as_in_f64) {
  const Golden golden("batch_norm.safetensors");
  const auto exact = train(local_group(), golden, {24}, DType::f64), by_tiles = train(local_group(), golden, {24});
  const auto expected = golden["network/losses"].to_vector<double>();
  double pytorchs = 0, ours = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    pytorchs = std::max(pytorchs, std::abs(expected[i] - exact.losses[i]));
    ours = std::max(ours, std::abs(by_tiles.losses[i] - exact.losses[i]));
  }
  EXPECT_LT(ours, 15 * pytorchs);
  EXPECT_LT(ours, 2e-5);  // the losses are at most 8
}

// Compares the ranks' gradients with central differences. The objective is a weighted sum of the outputs of all ranks.
// Its variables are each rank's x, weight and bias.
void gradcheck_over_ranks(Group group, BatchNormFusion fusion) {
  const Sizes sizes{2, 0, 1};
  const auto rank = static_cast<std::uint64_t>(group->rank());
  std::vector<Tensor> inputs{Tensor(uniform({sizes[rank], 2, 4, 2}, 10 + rank, DType::f64), true),
                             Tensor(uniform({2}, 1, DType::f64), true),  // equal on all ranks, as usual
                             Tensor(uniform({2}, 2, DType::f64), true)};
  BatchNormState state{ops::zeros({2}, DType::f64), ops::ones({2}, DType::f64)};
  state.exchange = batch_norm_exchange(group, "layer");
  const auto output = [&] { return batch_norm(inputs[0], inputs[1], inputs[2], state, fusion); };

  const Tensor y = output();
  const Array weights = uniform(y.shape(), 20 + rank, DType::f64);
  y.backward({.gradient = weights});
  const auto objective = [&] {
    const NoGrad no_grad;
    return sum_over_ranks(group, sum(output() * Tensor(weights)).value()).item();
  };
  for (int owner = 0; owner < group->size(); ++owner) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int64_t elements = i == 0 ? sizes[owner] * 16 : 2;
      for (std::int64_t j = 0; j < elements; ++j) {
        const double eps = 1e-6;
        const auto moved = [&](double by) {
          if (group->rank() != owner) return objective();
          double& element = inputs[i].value().data<double>()[j];
          const double before = std::exchange(element, element + by);
          const double value = objective();
          element = before;
          return value;
        };
        const double numerical = (moved(eps) - moved(-eps)) / (2 * eps);
        if (group->rank() != owner) continue;
        // EXPECT, not ASSERT, because the other ranks continue.
        EXPECT_NEAR(inputs[i].grad().to_vector<double>()[j], numerical, 1e-7 + 1e-6 * std::abs(numerical))
            << "relu " << fusion.relu << ", pooling " << fusion.max_pool_2x2 << ", rank " << owner << ", input " << i
            << ", element " << j;
      }
    }
  }
}

TEST(SyncBatchNorm, gradients_agree_with_finite_differences_over_all_ranks) {
  run_ranks(3, [](Group group) {
    gradcheck_over_ranks(group, {});
    gradcheck_over_ranks(group, {.relu = true});
    gradcheck_over_ranks(group, {.relu = true, .max_pool_2x2 = true});
  });
}

nn::Sequential two_layers() {
  return nn::Sequential{nn::Conv2d(1, 4, 3),     nn::BatchNorm2d(4), nn::ReLU(),
                        nn::Conv2d(4, 4, 3),     nn::BatchNorm2d(4), nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 2)};
}

void train_two_layers(DistributedDataParallel& ddp, nn::Module& model, int rank, int steps) {
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    const auto images = uniform({rank + step % 2, 1, 8, 8}, static_cast<std::uint64_t>(step * 10 + rank));
    optimizer.zero_grad();
    sum(ddp(images)).backward();
    optimizer.step();
  }
}

TEST(SyncBatchNorm, all_ranks_start_statistics_and_buckets_in_one_order) {
  std::vector<std::vector<std::string>> orders(3);
  run_ranks(3, [&](Group group) {
    manual_seed(0);
    auto model = two_layers();
    const auto recording = std::make_shared<RecordingGroup>(group);
    convert_sync_batch_norm(model, recording);
    // Every parameter has a separate bucket, so buckets start throughout the backward pass.
    DistributedDataParallel ddp(model, recording, {.buckets = {.first_bytes = 1, .bytes = 1}});
    recording->started.clear();
    train_two_layers(ddp, model, group->rank(), 1);
    auto& order = orders[group->rank()];
    for (const auto& name : recording->started) {
      order.push_back(name.find("bucket") == std::string::npos ? name : "bucket");
    }
    train_two_layers(ddp, model, group->rank(), 3);
    order.insert(order.end(), recording->started.begin(), recording->started.end());
  });
  const std::vector<std::string> first_step{"statistics of 1",
                                            "statistics of 4",  // forward
                                            "bucket",
                                            "bucket",  // linear
                                            "gradient sums of 4",
                                            "bucket",
                                            "bucket",  // batch norm
                                            "bucket",
                                            "bucket",  // convolution
                                            "gradient sums of 1",
                                            "bucket",
                                            "bucket",
                                            "bucket",
                                            "bucket"};
  ASSERT_GE(orders[0].size(), first_step.size());
  EXPECT_EQ(std::vector<std::string>(orders[0].begin(), orders[0].begin() + 14), first_step);
  EXPECT_EQ(orders[1], orders[0]);
  EXPECT_EQ(orders[2], orders[0]);
}

TEST(SyncBatchNorm, works_over_a_group_of_its_own_beside_the_buckets) {
  run_ranks(3, [&](Group group) {
    const Group statistics = group->subgroup({0, 1, 2});
    manual_seed(0);
    auto model = two_layers(), shared = two_layers();
    shared.load_state_dict(model.state_dict());
    convert_sync_batch_norm(model, statistics);
    convert_sync_batch_norm(shared, group);
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 1, .bytes = 1}});
    DistributedDataParallel shared_ddp(shared, group, {.buckets = {.first_bytes = 1, .bytes = 1}});
    train_two_layers(ddp, model, group->rank(), 5);
    train_two_layers(shared_ddp, shared, group->rank(), 5);
    const auto found = model.state_dict(), expected = shared.state_dict();
    for (std::size_t i = 0; i < expected.size(); ++i) expect_same(expected[i].array, found[i].array, expected[i].name);
  });
}

TEST(SyncBatchNorm, exchanges_only_what_somebody_needs) {
  run_ranks(2, [](Group group) {
    const auto recording = std::make_shared<RecordingGroup>(group);
    SyncBatchNorm norm(2, recording);
    const Array images = uniform({3, 2, 4, 4}, static_cast<std::uint64_t>(group->rank()));
    sum(norm(images)).backward();  // the images need no gradient
    EXPECT_EQ(recording->started, std::vector<std::string>{"statistics of batch norm"});
    norm.eval();
    recording->started.clear();
    sum(norm(Tensor(images, true))).backward();
    EXPECT_EQ(recording->started, std::vector<std::string>{});
  });
}

TEST(SyncBatchNorm, a_group_of_one_is_a_plain_batch_norm) {
  const auto recording = std::make_shared<RecordingGroup>(local_group());
  manual_seed(0);
  auto plain = two_layers(), converted = two_layers();
  converted.load_state_dict(plain.state_dict());
  convert_sync_batch_norm(converted, recording);
  const Array images = uniform({3, 1, 8, 8}, 1);
  expect_same(plain(images).value(), converted(images).value(), "output");
  EXPECT_EQ(recording->started, std::vector<std::string>{});
}

TEST(SyncBatchNorm, conversion_keeps_modules_parameters_buffers_and_names) {
  struct Net : nn::Module {
    nn::Sequential& features = add("features", two_layers());
    nn::BatchNorm2d& norm = add("norm", nn::BatchNorm2d(1));
    Tensor forward(const Tensor& x) override { return features(norm(x)); }
  };
  run_ranks(2, [](Group group) {
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 1});
    const auto parameters = net.parameters(), buffers = net.buffers();
    const auto recording = std::make_shared<RecordingGroup>(group);
    convert_sync_batch_norm(net, recording);
    const auto parameters_after = net.parameters(), buffers_after = net.buffers();
    ASSERT_EQ(parameters_after.size(), parameters.size());
    ASSERT_EQ(buffers_after.size(), buffers.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(parameters_after[i].name, parameters[i].name);
      EXPECT_TRUE(parameters_after[i].tensor.same_as(parameters[i].tensor)) << parameters[i].name;
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers_after[i].name, buffers[i].name);
      EXPECT_TRUE(buffers_after[i].tensor.same_as(buffers[i].tensor)) << buffers[i].name;
    }
    // The reference from before the conversion refers to the converted module.
    net(uniform({2, 1, 8, 8}, 1));
    EXPECT_EQ(recording->started,
              (std::vector<std::string>{"statistics of norm", "statistics of features.1", "statistics of features.4"}));
    // The optimizer from before the conversion updates the parameters that the layer uses.
    net.norm.weight.set_grad(ops::ones({1}));
    optimizer.step();
    EXPECT_EQ(net.norm.weight.item(), 0);
  });
}

TEST(SyncBatchNorm, one_value_per_channel_is_an_error_only_when_no_rank_has_another) {
  // Deep networks pool to 1 x 1. With one image per rank, each rank then has one value per channel.
  run_ranks(2, [](Group group) {
    SyncBatchNorm norm(1, group, {.momentum = 1});
    const Tensor y = norm(ops::full({1, 1, 1, 1}, group->rank() == 0 ? 3 : 5));
    EXPECT_NEAR(y.item(), group->rank() == 0 ? -1 : 1, 1e-4);
    EXPECT_EQ(norm.running_mean.item(), 4);
    EXPECT_EQ(norm.running_var.item(), 2);
  });
  const auto results = run_ranks_catching(2, [](Group group) {
    SyncBatchNorm norm(1, group);
    norm(ops::ones({group->rank(), 1, 1, 1}));
  });
  for (const auto& result : results) {
    EXPECT_NE(message_of(result).find("expected more than 1 value per channel"), std::string::npos)
        << message_of(result);
    EXPECT_NE(message_of(result).find("any other rank"), std::string::npos) << message_of(result);
  }
}

TEST(SyncBatchNorm, a_batch_without_images_on_any_rank_leaves_the_statistics_alone) {
  run_ranks(2, [](Group group) {
    SyncBatchNorm norm(2, group);
    const Tensor x(ops::zeros({0, 2, 3, 3}), true);
    const Tensor y = norm(x);
    EXPECT_EQ(y.shape(), (Shape{0, 2, 3, 3}));
    y.backward({.gradient = ops::zeros(y.shape())});
    EXPECT_EQ(norm.weight.grad().to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(norm.running_mean.value().to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(norm.running_var.value().to_vector<float>(), (std::vector<float>{1, 1}));
  });
}

// One variance is far below eps, the other far below the square of the mean. Ranks that exchanged 1 / sqrt(variance +
// eps), or sums of squares in f32, would lose them.
TEST(SyncBatchNorm, small_variances_survive_the_journey) {
  const Sizes sizes{40, 8, 16};
  for (const auto& [offset, spread] : {std::pair{0.0, 1e-5}, std::pair{1000.0, 0.25}}) {
    std::vector<float> values(64 * 9);
    Generator generator(3);
    for (auto& v : values) v = static_cast<float>(offset + spread * generator.uniform(-1.0, 1.0));
    double mean = 0, m2 = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values) m2 += (v - mean) * (v - mean);
    const double variance = m2 / static_cast<double>(values.size() - 1);
    const Array whole = Array::from(values, {64, 1, 3, 3});
    run_ranks(3, [&](Group group) {
      SyncBatchNorm norm(1, group, {.momentum = 1});
      norm(part_of(whole, sizes, group->rank()));
      EXPECT_NEAR(norm.running_var.item() / variance, 1, 5e-5) << offset;
    });
  }
}

}  // namespace
}  // namespace tandem::distributed
