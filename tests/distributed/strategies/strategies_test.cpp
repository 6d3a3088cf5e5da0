#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/communication_meter.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/forwarding_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/distributed/strategies/hierarchical_all_reduce.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/strategies/ring_all_reduce.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/few_threads.h>
#include <support/ranks.h>
#include <support/small_training.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::message_of;
using testing::network_with_batch_norm;
using testing::plain_network;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::Samples;

// ---- The ring

// Small whole numbers that differ between ranks. Every order of addition gives the same sum.
Array numbers_of(int rank, std::int64_t count, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((rank + 1) * 100 + i % 37);
  return Array::from(values, {count}).to(dtype);
}

void expect_ring_sum(Group group, std::int64_t count, DType dtype) {
  auto expected = ops::zeros({count}, dtype);
  for (int r = 0; r < group->size(); ++r) ops::add_(expected, numbers_of(r, count, dtype));
  const Array found = numbers_of(group->rank(), count, dtype);
  ring_all_reduce(*group, found);
  testing::expect_same(expected, found,
                       std::to_string(count) + " elements on " + std::to_string(group->size()) + " ranks");
}

TEST(RingAllReduce, sums_any_length_over_any_number_of_ranks) {
  for (const char* backend : {"shm", "gloo"}) {
    for (const int size : {1, 2, 3, 4, 5}) {
      run_ranks(
          size,
          [](Group group) {
            for (const std::int64_t count : {0, 1, 2, 3, 4, 7, 1000, 100003}) expect_ring_sum(group, count, DType::f32);
            expect_ring_sum(group, 11, DType::f64);
            expect_ring_sum(group, 11, DType::i64);
          },
          std::chrono::seconds(60), backend);
    }
  }
}

TEST(RingAllReduce, averages_an_array_with_gaps_identically_on_all_ranks) {
  run_ranks(3, [](Group group) {
    auto values = testing::counting({5, 7});
    ops::scale_(values, 0.1 * (group->rank() + 1));
    const Array view = testing::strided(values);
    const Array expected = values.clone();
    ring_all_reduce(*group, view, ReduceOp::mean);
    group->all_reduce(expected, ReduceOp::mean)->wait();
    testing::expect_close(expected, view, 1e-6, "mean");

    const Array mine = view.contiguous();
    std::vector<Array> all;
    for (int r = 0; r < group->size(); ++r) all.push_back(ops::empty_like(mine));
    group->all_gather(all, mine)->wait();
    for (const auto& other : all) testing::expect_same(mine, other, "another rank's result");
  });
}

TEST(RingAllReduce, refuses_what_it_cannot_compute) {
  const auto group = local_group();
  EXPECT_THROW(ring_all_reduce(*group, ops::ones({2}), ReduceOp::max), Error);
  EXPECT_THROW(ring_all_reduce(*group, ops::ones({2}, DType::i64), ReduceOp::mean), Error);
}

// ---- The hierarchy

// One letter for each rank, which is its host.
std::string host_of(const std::string& hosts, int rank) { return hosts.substr(static_cast<std::size_t>(rank), 1); }

const std::vector<std::string> placements = {"a", "aa", "ab", "aba", "aabb", "abab", "abbcb"};

TEST(HierarchicalAllReduce, finds_the_ranks_of_each_host_and_their_leaders) {
  const std::map<std::string, std::vector<int>> members = {{"a", {0}}, {"b", {1, 2, 4}}, {"c", {3}}};
  run_ranks(5, [&](Group group) {
    const auto host = host_of("abbcb", group->rank());
    const auto hierarchy = make_hierarchy(*group, host);
    const auto& mine = members.at(host);
    EXPECT_EQ(hierarchy.size, 5);
    ASSERT_EQ(hierarchy.on_host->size(), static_cast<int>(mine.size()));
    EXPECT_EQ(mine[static_cast<std::size_t>(hierarchy.on_host->rank())], group->rank());
    ASSERT_EQ(hierarchy.leaders != nullptr, group->rank() == mine[0]);
    if (hierarchy.leaders) {
      EXPECT_EQ(hierarchy.leaders->size(), 3);
    }
  });
  run_ranks(3, [](Group group) {
    const auto hierarchy = make_hierarchy(*group);  // these ranks really share a host
    EXPECT_EQ(hierarchy.on_host->size(), 3);
    EXPECT_EQ(hierarchy.leaders != nullptr, group->rank() == 0);
  });
}

TEST(HierarchicalAllReduce, reduces_as_all_reduce_does_on_any_hosts) {
  for (const char* backend : {"auto", "gloo"}) {
    for (const auto& hosts : placements) {
      SCOPED_TRACE(std::string(backend) + " " + hosts);
      run_ranks(
          static_cast<int>(hosts.size()),
          [&](Group group) {
            const auto hierarchy = make_hierarchy(*group, host_of(hosts, group->rank()));
            for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
              for (const std::int64_t count : {0, 1, 7, 100003}) {
                const Array expected = numbers_of(group->rank(), count, DType::f32), found = expected.clone();
                group->all_reduce(expected, op)->wait();
                hierarchical_all_reduce(hierarchy, found, op);
                testing::expect_same(expected, found, std::to_string(count) + " elements");
              }
            }
          },
          std::chrono::seconds(60), backend);
    }
  }
}

TEST(HierarchicalAllReduce, averages_an_array_with_gaps_identically_on_all_ranks) {
  run_ranks(5, [](Group group) {
    auto values = testing::counting({5, 7});
    ops::scale_(values, 0.1 * (group->rank() + 1));
    const Array view = testing::strided(values);
    const Array expected = values.clone();
    hierarchical_all_reduce(make_hierarchy(*group, host_of("abbcb", group->rank())), view, ReduceOp::mean);
    group->all_reduce(expected, ReduceOp::mean)->wait();
    testing::expect_close(expected, view, 1e-6, "mean");

    const Array mine = view.contiguous(), rank_0 = mine.clone();
    group->broadcast(rank_0, 0)->wait();
    testing::expect_same(rank_0, mine, "the result");
  });
}

// Forwards all operations, and records those of the group and its subgroups in the order of their starts.
class RecordingGroup : public ForwardingGroup {
 public:
  RecordingGroup(Group group, std::string& started) : ForwardingGroup(std::move(group)), started_(started) {}
  Group subgroup(const std::vector<int>& ranks) override {
    return std::make_shared<RecordingGroup>(ForwardingGroup::subgroup(ranks), started_);
  }
  std::shared_ptr<Work> start(Operation operation) override {
    started_ += operation.kind_name() + operation.name.substr(operation.name.rfind(' ')) + "; ";
    return ForwardingGroup::start(std::move(operation));
  }

 private:
  std::string& started_;
};

// Each step of a bucket starts one bucket later than the step before it, in each backward pass.
TEST(HierarchicalAllReduce, overlaps_the_steps_of_successive_buckets) {
  std::string started;
  const auto group = std::make_shared<RecordingGroup>(local_group(), started);
  const auto hook = hierarchical_hook(group);
  for (int pass = 0; pass < 2; ++pass) {
    started.clear();
    std::vector<std::shared_ptr<Work>> works;
    for (std::size_t i = 0; i < 4; ++i)
      works.push_back(hook({"gradient bucket " + std::to_string(i), i, i == 3, ops::ones({2}), {}, {}}, *group));
    EXPECT_FALSE(works[3]->is_done());
    for (const auto& work : works) work->wait();
    EXPECT_TRUE(works[3]->is_done());
    EXPECT_EQ(started,
              "reduce 0; reduce 1; all_reduce 0; reduce 2; broadcast 0; all_reduce 1; reduce 3; broadcast 1; "
              "all_reduce 2; broadcast 2; all_reduce 3; broadcast 3; ");
  }
}

TEST(HierarchicalAllReduce, refuses_a_mean_of_whole_numbers_and_a_missing_group) {
  const auto hierarchy = make_hierarchy(*local_group());
  EXPECT_THROW(hierarchical_all_reduce(hierarchy, ops::ones({2}, DType::i64), ReduceOp::mean), Error);
  EXPECT_THROW(hierarchical_hook(nullptr), Error);
}

// ---- All strategies train alike

constexpr optim::SGDOptions sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
constexpr int steps = 8;
constexpr std::int64_t batch = 24;

struct Training {
  std::vector<double> losses;     // of the whole batch, for each step
  std::vector<float> parameters;  // at the end, concatenated
};

// Trains `model` on this rank's part of each batch. `forward` is the model or its wrapper, and `update` runs after
// backward.
template <class Forward, class Update>
Training train(nn::Module& model, Group group, Forward forward, Update update) {
  const nn::CrossEntropyLoss criterion;
  const std::int64_t share = batch / group->size();
  Training result;
  for (int step = 0; step < steps; ++step) {
    const Samples samples(step * batch + group->rank() * share, share);
    const Tensor loss = criterion(forward(samples.images), samples.labels);
    model.zero_grad();
    loss.backward();
    update();
    const auto mean = ops::full({1}, loss.item(), DType::f64);
    group->all_reduce(mean, ReduceOp::mean)->wait();
    result.losses.push_back(mean.item());
  }
  for (const NamedTensor& parameter : model.parameters()) {
    const auto values = parameter.tensor.value().to_vector<float>();
    result.parameters.insert(result.parameters.end(), values.begin(), values.end());
  }
  return result;
}

Training train_alone() {
  manual_seed(1);
  auto model = plain_network();
  optim::SGD optimizer(model.parameters(), sgd);
  return train(
      model, local_group(), [&](const Tensor& x) { return model(x); }, [&] { optimizer.step(); });
}

Training train_ddp(Group group) {
  manual_seed(1 + group->rank());  // all ranks start with rank 0's weights
  auto model = plain_network();
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
  optim::SGD optimizer(model.parameters(), sgd);
  return train(
      model, group, [&](const Tensor& x) { return ddp(x); }, [&] { optimizer.step(); });
}

Training train_ring(Group group) {
  manual_seed(1 + group->rank());
  auto model = plain_network();
  DistributedDataParallel ring(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
  ring.set_communication_hook(ring_hook());
  const auto meter = std::make_shared<CommunicationMeter>();
  ring.observe(meter);
  optim::SGD optimizer(model.parameters(), sgd);
  return train(
      model, group, [&](const Tensor& x) { return ring(x); },
      [&] {
        optimizer.step();
        if (group->size() == 1 || meter->report().steps == 0) return;
        EXPECT_GT(meter->report().communication, 0);
        EXPECT_EQ(meter->report().hidden(), 0);  // the backward pass waits for each bucket
      });
}

Training train_hierarchical(Group group, const std::string& hosts) {
  manual_seed(1 + group->rank());
  auto model = plain_network();
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 4, .bytes = 4}});
  ddp.set_communication_hook(hierarchical_hook(group, host_of(hosts, group->rank())));
  const auto meter = std::make_shared<CommunicationMeter>();
  ddp.observe(meter);
  optim::SGD optimizer(model.parameters(), sgd);
  const auto training = train(
      model, group, [&](const Tensor& x) { return ddp(x); }, [&] { optimizer.step(); });
  EXPECT_EQ(meter->report().buckets.size(), 4U);  // all steps of a bucket overlap with others
  EXPECT_GT(meter->report().communication, 0);
  return training;
}

Training train_parameter_server(Group group, int servers) {
  manual_seed(1 + group->rank());
  auto model = plain_network();
  ParameterServer server(model, group, servers);
  std::optional<optim::SGD> optimizer;
  if (server.is_server()) optimizer.emplace(server.kept(), sgd);
  return train(
      model, group, [&](const Tensor& x) { return model(x); }, [&] { server.step([&] { optimizer->step(); }); });
}

Training train_replicas(int replicas) {
  manual_seed(1);
  auto model = plain_network();
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, replicas);
  optim::SGD optimizer(model.parameters(), sgd);
  return train(
      model, local_group(), [&](const Tensor& x) { return parallel(x); }, [&] { optimizer.step(); });
}

void expect_equal(const Training& expected, const Training& found, double tolerance) {
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < found.losses.size(); ++i)
    ASSERT_NEAR(found.losses[i], expected.losses[i], tolerance) << "loss of step " << i;
  ASSERT_EQ(found.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < found.parameters.size(); ++i)
    ASSERT_NEAR(found.parameters[i], expected.parameters[i], 2 * tolerance) << "parameter " << i;
}

TEST(Strategies, ring_trains_as_one_process_and_as_ddp) {
  const auto alone = train_alone();
  for (const int size : {2, 3, 4}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    run_ranks(size, [&](Group group) {
      const auto ring = train_ring(group);
      expect_equal(alone, ring, 1e-6);
      expect_equal(train_ddp(group), ring, 1e-6);
    });
  }
}

TEST(Strategies, hierarchical_trains_as_one_process_and_as_ddp) {
  const auto alone = train_alone();
  for (const std::string hosts : {"a", "aa", "ab", "aba", "aabb", "abab", "abbc"}) {
    SCOPED_TRACE(hosts);
    run_ranks(static_cast<int>(hosts.size()), [&](Group group) {
      const auto found = train_hierarchical(group, hosts);
      expect_equal(alone, found, 1e-6);
      expect_equal(train_ddp(group), found, 1e-6);
    });
  }
}

TEST(Strategies, parameter_server_trains_as_one_process_and_as_ddp) {
  const auto alone = train_alone();
  for (const int size : {2, 3, 4}) {
    run_ranks(size, [&](Group group) {
      const auto ddp = train_ddp(group);
      for (int servers = 1; servers <= size; ++servers) {
        SCOPED_TRACE(std::to_string(servers) + " servers for " + std::to_string(size) + " ranks");
        const auto found = train_parameter_server(group, servers);
        expect_equal(alone, found, 1e-6);
        expect_equal(ddp, found, 1e-6);
      }
    });
  }
}

// These strategies add in the order of the ranks, and a half or a quarter of a float is exact.
TEST(Strategies, parameter_server_and_hierarchy_are_ddp_over_shared_memory_to_the_bit) {
  for (const int size : {2, 4}) {
    run_ranks(
        size,
        [&](Group group) {
          const auto ddp = train_ddp(group);
          expect_equal(ddp, train_parameter_server(group, 2), 0);
          expect_equal(ddp, train_hierarchical(group, std::string(static_cast<std::size_t>(size), 'a')), 0);
        },
        std::chrono::seconds(60), "shm");
  }
}

TEST(Strategies, parameter_server_ring_and_hierarchy_train_over_tcp) {
  const auto alone = train_alone();
  run_ranks(
      3,
      [&](Group group) {
        expect_equal(alone, train_parameter_server(group, 2), 1e-6);
        expect_equal(alone, train_ring(group), 1e-6);
        expect_equal(alone, train_hierarchical(group, "aba"), 1e-6);
      },
      std::chrono::seconds(60), "gloo");
}

TEST(Strategies, data_parallel_trains_as_one_process) {
  const auto alone = train_alone();
  for (const int replicas : {1, 2, 3, 4}) {
    SCOPED_TRACE(std::to_string(replicas) + " replicas");
    expect_equal(alone, train_replicas(replicas), 1e-6);
  }
}

TEST(Strategies, a_parameter_without_gradient_is_named) {
  testing::Branches model;
  model.both = false;
  ParameterServer server(model, local_group(), 1);
  sum(model(ops::ones({1, 2}))).backward();
  try {
    server.step([] {});
    FAIL() << "the parameter server did not notice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0: no gradient for sometimes.weight, sometimes.bias."),
              std::string::npos)
        << error.what();
  }
}

// ---- The parameter server

std::vector<NamedTensor> parameters_of(const std::vector<std::int64_t>& lengths) {
  std::vector<NamedTensor> parameters;
  for (const auto length : lengths) parameters.push_back({"p", Tensor(ops::zeros({length}), true)});
  return parameters;
}

TEST(ParameterServer, divides_parameters_evenly_by_bytes) {
  using Shares = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(divide_parameters(parameters_of({5, 3, 4, 2, 6}), 1), (Shares{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(divide_parameters(parameters_of({5, 3, 4, 2, 6}), 2), (Shares{{1, 3, 4}, {0, 2}}));
  EXPECT_EQ(divide_parameters(parameters_of({1, 1, 1}), 3), (Shares{{0}, {1}, {2}}));
  EXPECT_THROW(divide_parameters(parameters_of({1, 1}), 3), Error);
  EXPECT_THROW(divide_parameters(parameters_of({1, 1}), 0), Error);
}

TEST(ParameterServer, keeps_each_parameter_on_one_server) {
  std::mutex mutex;
  std::vector<std::string> kept;
  run_ranks(3, [&](Group group) {
    auto model = plain_network();
    ParameterServer server(model, group, 2);
    EXPECT_EQ(server.is_server(), group->rank() < 2);
    if (!server.is_server()) {
      EXPECT_THROW(server.kept(), Error);
      return;
    }
    const std::lock_guard lock(mutex);
    for (const auto& parameter : server.kept()) kept.push_back(parameter.name);
  });
  std::vector<std::string> names;
  for (const auto& [name, tensor] : plain_network().parameters()) names.push_back(name);
  std::sort(kept.begin(), kept.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(kept, names);
}

TEST(ParameterServer, leaves_frozen_parameters_alone) {
  run_ranks(2, [](Group group) {
    manual_seed(group->rank());
    auto model = plain_network();
    auto weight = model.parameters()[0].tensor;
    weight.set_requires_grad(false);
    ParameterServer server(model, group, 2);
    std::optional<optim::SGD> optimizer;
    if (server.is_server()) optimizer.emplace(server.kept(), sgd);
    const auto before = weight.value().clone();
    sum(model(Samples(group->rank() * 4, 4).images)).backward();
    server.step([&] { optimizer->step(); });
    testing::expect_same(before, weight.value(), "frozen weight");
  });
}

TEST(ParameterServer, refuses_more_servers_than_ranks) {
  const auto results = run_ranks_catching(2, [](Group group) {
    auto model = plain_network();
    ParameterServer server(model, group, 3);
  });
  EXPECT_NE(message_of(results[0]).find("3 servers in a group of 2"), std::string::npos) << message_of(results[0]);
}

// ---- DataParallel

std::unique_ptr<nn::Module> replica_with_batch_norm() {
  return std::make_unique<nn::Sequential>(network_with_batch_norm());
}

TEST(DataParallel, output_and_input_gradient_are_the_models_even_for_small_batches) {
  manual_seed(3);
  auto model = plain_network();
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 4);
  for (const std::int64_t count : {1, 2, 5, 6, 9}) {
    const Samples samples(0, count);
    Tensor expected_input(samples.images, true), found_input(samples.images, true);
    model.zero_grad();
    const Tensor expected = model(expected_input);
    sum(expected * expected).backward();
    const Array gradient = model.parameters()[0].tensor.grad().clone();
    model.zero_grad();
    const Tensor found = parallel(found_input);
    sum(found * found).backward();
    testing::expect_close(expected.value(), found.value(), 1e-6, "output");
    testing::expect_close(expected_input.grad(), found_input.grad(), 1e-6, "gradient of the input");
    testing::expect_close(gradient, model.parameters()[0].tensor.grad(), 1e-5, "gradient of a parameter");
  }
}

TEST(DataParallelDeathTest, says_that_a_thread_cannot_start) {
  const auto make = [] {
    auto model = plain_network();
    testing::allow_threads(2);
    try {
      const DataParallel parallel(
          model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 4);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
    _exit(0);
  };
  // The number is 2 if a sanitizer has a thread.
  EXPECT_EXIT(make(), ::testing::ExitedWithCode(3),
              "cannot start thread [23] of 4 of a DataParallel: .*raise the process limit .*use fewer replicas");
}

TEST(DataParallel, accumulates_gradients_over_backward_passes) {
  auto model = plain_network();
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 2);
  const Samples samples(0, 4);
  sum(parallel(samples.images)).backward();
  auto twice = model.parameters()[0].tensor.grad().clone();
  ops::scale_(twice, 2);
  sum(parallel(samples.images)).backward();
  testing::expect_close(twice, model.parameters()[0].tensor.grad(), 1e-6, "gradient");
}

TEST(DataParallel, keeps_the_buffers_of_replica_0) {
  manual_seed(3);
  auto model = network_with_batch_norm();
  manual_seed(3);
  auto alone = network_with_batch_norm();
  DataParallel parallel(model, replica_with_batch_norm, 2);
  for (int step = 0; step < 3; ++step) {
    parallel(Samples(step * 16, 16).images);
    alone(Samples(step * 16, 8).images);
  }
  const auto expected = alone.state_dict(), found = model.state_dict();
  for (std::size_t i = 0; i < expected.size(); ++i)
    testing::expect_same(expected[i].array, found[i].array, expected[i].name);

  // In evaluation, the replicas use the model's statistics, so they compute the same numbers.
  model.eval();
  const Samples samples(0, 6);
  testing::expect_close(model(samples.images).value(), parallel(samples.images).value(), 1e-6, "evaluation");
}

// The weighted mean of the losses of pieces with 3, 3 and 1 samples is the loss of the whole batch.
TEST(DataParallel, the_mean_of_the_replicas_losses_is_the_loss_of_the_batch) {
  manual_seed(3);
  auto model = plain_network();
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 3);
  const Samples samples(0, 7);
  // Each piece has its rows of every array of the batch.
  const auto loss_of = [](nn::Module& net, const data::Batch& part) {
    EXPECT_EQ(part.more.at(0).to_vector<std::int64_t>(), part.targets.to_vector<std::int64_t>());
    return cross_entropy(net(part.inputs), part.targets);
  };
  const data::Batch batch{samples.images, samples.labels, {samples.labels}};
  const Tensor expected = loss_of(model, batch);
  expected.backward();
  const Array gradient = model.parameters()[0].tensor.grad().clone();
  model.zero_grad();
  const Tensor found = parallel.mean_loss(batch, loss_of);
  found.backward();
  EXPECT_NEAR(found.item(), expected.item(), 1e-6);
  testing::expect_close(gradient, model.parameters()[0].tensor.grad(), 1e-5, "gradient of a parameter");
}

// Dropout in a replica depends only on the caller's generator, so a job that resumes from a checkpoint repeats it.
TEST(DataParallel, the_callers_generator_decides_the_replicas_random_numbers) {
  const auto net = [] { return nn::Sequential{nn::Flatten(), nn::Dropout(0.5)}; };
  auto model = net();
  DataParallel parallel(
      model, [&] { return std::make_unique<nn::Sequential>(net()); }, 2);
  const NoGrad no_grad;
  const auto drawn = [&] { return parallel(ops::ones({2, 1000})).value().clone(); };
  manual_seed(7);
  const Array first = drawn(), second = drawn();
  manual_seed(7);
  testing::expect_same(first, drawn(), "the first draw");
  testing::expect_same(second, drawn(), "the second draw");
  EXPECT_NE(first.to_vector<float>(), second.to_vector<float>());
  EXPECT_NE(first.select(0, 0).to_vector<float>(), first.select(0, 1).to_vector<float>());  // the replicas differ
}

// Reports the thread, the number of rows and the mode in which forward ran.
struct Witness : nn::Module {
  struct Notes {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<std::int64_t> rows;
    std::vector<cpu_set_t> cores;
    bool gradients = false;
  };
  explicit Witness(Notes& notes, std::int64_t bad_row_count = -1) : notes(notes), bad_row_count(bad_row_count) {}
  Notes& notes;
  std::int64_t bad_row_count;
  nn::Linear& linear = add("linear", nn::Linear(2, 2));
  Tensor forward(const Tensor& x) override {
    TANDEM_CHECK(x.dim(0) != bad_row_count, "a piece of ", x.dim(0), " rows");
    const std::lock_guard lock(notes.mutex);
    notes.threads.insert(std::this_thread::get_id());
    notes.rows.push_back(x.dim(0));
    notes.gradients = grad_enabled();
    notes.cores.emplace_back();
    sched_getaffinity(0, sizeof(cpu_set_t), &notes.cores.back());
    return linear(x);
  }
};

TEST(DataParallel, runs_each_piece_on_a_thread_of_its_own_as_the_caller_would) {
  Witness::Notes notes;
  Witness model(notes);
  DataParallel parallel(
      model, [&] { return std::make_unique<Witness>(notes); }, 3);
  EXPECT_TRUE(parallel(ops::ones({7, 2})).requires_grad());
  EXPECT_TRUE(notes.gradients);
  std::sort(notes.rows.begin(), notes.rows.end());
  EXPECT_EQ(notes.rows, (std::vector<std::int64_t>{1, 3, 3}));
  EXPECT_EQ(notes.threads.size(), 3U);
  EXPECT_EQ(notes.threads.count(std::this_thread::get_id()), 0U);
  {
    const NoGrad no_grad;
    EXPECT_FALSE(parallel(ops::ones({7, 2})).requires_grad());
    EXPECT_FALSE(notes.gradients);
  }
  {
    const Autocast autocast(DType::bf16);
    EXPECT_EQ(parallel(ops::ones({7, 2})).dtype(), DType::bf16);
  }
  EXPECT_EQ(notes.threads.size(), 3U);
}

TEST(DataParallel, gives_each_replica_cores_of_its_own) {
  if (available_cores() < 2) GTEST_SKIP() << "not run: this process may use one core only";
  Witness::Notes notes;
  Witness model(notes);
  DataParallel parallel(
      model, [&] { return std::make_unique<Witness>(notes); }, 2);
  parallel(ops::ones({2, 2}));
  cpu_set_t shared;
  CPU_AND(&shared, &notes.cores.at(0), &notes.cores.at(1));
  EXPECT_EQ(CPU_COUNT(&shared), 0);
}

TEST(DataParallel, brings_a_replicas_exception_to_the_caller_and_goes_on) {
  Witness::Notes notes;
  Witness model(notes);
  DataParallel parallel(
      model, [&] { return std::make_unique<Witness>(notes, 1); }, 3);
  try {
    parallel(ops::ones({7, 2}));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a piece of 1 rows"), std::string::npos) << error.what();
  }
  EXPECT_EQ(parallel(ops::ones({6, 2})).dim(0), 6);
}

TEST(DataParallel, refuses_another_model_and_an_empty_batch) {
  auto model = plain_network();
  EXPECT_THROW(DataParallel(
                   model, [] { return std::make_unique<nn::Sequential>(network_with_batch_norm()); }, 2),
               Error);
  EXPECT_THROW(DataParallel(
                   model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 0),
               Error);
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 2);
  EXPECT_THROW(parallel(Array::empty({0, 1, 8, 8})), Error);
}

TEST(DataParallel, a_second_forward_before_backward_is_an_error_not_a_wrong_gradient) {
  auto model = plain_network();
  DataParallel parallel(
      model, [] { return std::make_unique<nn::Sequential>(plain_network()); }, 2);
  const Tensor first = parallel(Samples(0, 4).images);
  parallel(Samples(4, 4).images);
  EXPECT_THROW(sum(first).backward(), Error);
}

}  // namespace
}  // namespace tandem::distributed
