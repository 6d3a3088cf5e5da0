#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/forwarding_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/strategies/diloco.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <cmath>
#include <memory>

namespace tandem::distributed {
namespace {

using testing::error_of;
using testing::expect_parts;
using testing::Group;
using testing::message_of;
using testing::network_with_batch_norm;
using testing::plain_network;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::Samples;

constexpr optim::SGDOptions inner{.lr = 0.05, .momentum = 0.9};
constexpr std::int64_t share = 4;  // samples of one rank in one step

void inner_step(nn::Module& model, optim::Optimizer& optimizer, int step, int rank, int ranks) {
  const Samples samples((step * ranks + rank) * share, share);
  model.zero_grad();
  nn::CrossEntropyLoss()(model(samples.images), samples.labels).backward();
  optimizer.step();
}

std::vector<float> numbers(const nn::Module& model) {
  std::vector<float> all;
  for (const auto& [name, array] : model.state_dict()) {
    if (!is_floating(array.dtype())) continue;
    const auto some = array.to_vector<float>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void set_numbers(const nn::Module& model, const std::vector<double>& all) {
  auto next = all.begin();
  for (const auto& [name, tensor] : model.parameters()) {
    const std::vector<float> some(next, next + tensor.numel());
    next += tensor.numel();
    Array(tensor.value()).copy_from(Array::from(some, tensor.shape()));
  }
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& found, double tolerance) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(expected[i], found[i], tolerance) << "number " << i;
}

void expect_equal_on_all_ranks(const nn::Module& model, ProcessGroup& group) {
  for (const float number : numbers(model)) ASSERT_EQ(group.max(number), -group.max(-number));
}

// One process that trains the model of each rank in turn, and makes the outer steps in f64.
struct Reference {
  explicit Reference(int ranks) : velocity() {
    for (int r = 0; r < ranks; ++r) {
      manual_seed(1);
      models.push_back(plain_network());
      optimizers.push_back(std::make_unique<optim::SGD>(models.back().parameters(), inner));
    }
    const auto first = numbers(models[0]);
    shared.assign(first.begin(), first.end());
    velocity.assign(shared.size(), 0);
  }

  std::vector<double> mean() const {
    std::vector<double> mean(shared.size());
    for (const auto& model : models) {
      const auto mine = numbers(model);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += mine[i] / static_cast<double>(models.size());
    }
    return mean;
  }

  void step(int number, std::int64_t inner_steps, const optim::SGDOptions& outer) {
    const int ranks = static_cast<int>(models.size());
    for (int r = 0; r < ranks; ++r) inner_step(models[r], *optimizers[r], number, r, ranks);
    if ((number + 1) % inner_steps != 0) return;
    const auto now = mean();
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const double gradient = shared[i] - now[i];
      velocity[i] = outer.momentum * velocity[i] + gradient;
      shared[i] -= outer.lr * (outer.nesterov ? gradient + outer.momentum * velocity[i] : velocity[i]);
    }
    for (const auto& model : models) set_numbers(model, shared);
  }

  std::vector<nn::Sequential> models;
  std::vector<std::unique_ptr<optim::SGD>> optimizers;
  std::vector<double> shared, velocity;
};

void expect_as_reference(Group group, std::int64_t inner_steps, const optim::SGDOptions& outer) {
  manual_seed(1 + group->rank());  // all ranks start with rank 0's weights
  auto model = plain_network();
  DiLoCo diloco(model, group, {.inner_steps = inner_steps, .outer = outer});
  optim::SGD optimizer(model.parameters(), inner);
  Reference reference(group->size());
  constexpr int steps = 8;
  for (int step = 0; step < steps; ++step) {
    inner_step(model, optimizer, step, group->rank(), group->size());
    EXPECT_EQ(diloco.step(), (step + 1) % inner_steps == 0);
    reference.step(step, inner_steps, outer);
    expect_near(numbers(reference.models[group->rank()]), numbers(model), 1e-5);
  }
  const auto own = numbers(model);
  diloco.use_mean();
  diloco.use_mean();
  const auto mean = reference.mean();
  expect_near({mean.begin(), mean.end()}, numbers(model), 1e-5);
  expect_equal_on_all_ranks(model, *group);
  diloco.use_own();
  diloco.use_own();
  EXPECT_EQ(numbers(model), own);
}

TEST(DiLoCo, trains_as_one_process_that_computes_all_ranks) {
  for (const int size : {1, 2, 3}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    run_ranks(size, [](Group group) {
      expect_as_reference(group, 3, DiLoCoOptions().outer);
      expect_as_reference(group, 3, local_sgd);
      expect_as_reference(group, 2, {.lr = 0.5, .momentum = 0.5});
    });
  }
}

TEST(DiLoCo, local_sgd_of_one_inner_step_is_ddp) {
  for (const int size : {1, 2, 3}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    run_ranks(size, [](Group group) {
      manual_seed(1);
      auto model = plain_network();
      manual_seed(1);
      auto other = plain_network();
      DiLoCo diloco(model, group, {.inner_steps = 1, .outer = local_sgd});
      DistributedDataParallel ddp(other, group);
      optim::SGD optimizer(model.parameters(), {.lr = 0.05}), of_other(other.parameters(), {.lr = 0.05});
      for (int step = 0; step < 8; ++step) {
        inner_step(model, optimizer, step, group->rank(), group->size());
        EXPECT_TRUE(diloco.step());
        inner_step(other, of_other, step, group->rank(), group->size());
      }
      expect_near(numbers(other), numbers(model), 1e-6);
      expect_equal_on_all_ranks(model, *group);
    });
  }
}

class CountingGroup : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  std::shared_ptr<Work> start(Operation operation) override {
    ++started;
    return ForwardingGroup::start(std::move(operation));
  }
  int started = 0;
};

TEST(DiLoCo, sends_one_message_in_an_outer_step_and_nothing_else) {
  run_ranks(2, [](Group ranks) {
    const auto group = std::make_shared<CountingGroup>(ranks);
    auto model = plain_network();
    DiLoCo diloco(model, group, {.inner_steps = 4});
    optim::SGD optimizer(model.parameters(), inner);
    group->started = 0;
    diloco.use_mean();
    for (int step = 0; step < 8; ++step) {
      inner_step(model, optimizer, step, group->rank(), 2);
      diloco.step();
      EXPECT_EQ(group->started, (step + 1) / 4);
    }
    diloco.use_mean();
    EXPECT_EQ(group->started, 2);
  });
}

TEST(DiLoCo, averages_running_statistics_and_copies_counters) {
  run_ranks(3, [](Group group) {
    manual_seed(1);
    auto model = network_with_batch_norm();
    DiLoCo diloco(model, group, {.inner_steps = 2});
    optim::SGD optimizer(model.parameters(), inner);
    const auto buffer = [&](const std::string& name) {
      for (const auto& [found, tensor] : model.buffers())
        if (found.ends_with(name)) return tensor.value().to(DType::f64).to_vector<double>();
      return std::vector<double>();
    };
    const auto means = [&](std::vector<double> values) {
      for (double& value : values) value = group->mean(value);
      return values;
    };
    if (group->rank() == 1) model(Samples(0, 4).images);
    inner_step(model, optimizer, 0, group->rank(), 3);
    diloco.step();
    inner_step(model, optimizer, 1, group->rank(), 3);
    const auto expected = means(buffer("running_var"));
    EXPECT_NE(expected, buffer("running_var"));
    diloco.step();
    const auto found = buffer("running_var");
    ASSERT_EQ(found.size(), 4U);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(expected[i], found[i], 1e-6);
    EXPECT_EQ(buffer("num_batches_tracked"), std::vector<double>{2});  // rank 1 had counted 3
    expect_equal_on_all_ranks(model, *group);
  });
}

TEST(DiLoCo, continues_from_its_state_bit_for_bit) {
  for (const int saved_after : {2, 3, 4}) {
    run_ranks(2, [&](Group group) {
      const int rank = group->rank();
      manual_seed(1);
      auto model = plain_network(), copy = plain_network();
      DiLoCo diloco(model, group, {.inner_steps = 3}), resumed(copy, group, {.inner_steps = 3});
      optim::SGD optimizer(model.parameters(), {.lr = 0.05}), of_copy(copy.parameters(), {.lr = 0.05});
      for (int step = 0; step < saved_after; ++step) {
        inner_step(model, optimizer, step, rank, 2);
        diloco.step();
      }
      EXPECT_TRUE(diloco.rank_state_dict().empty());
      diloco.use_mean();
      EXPECT_EQ(diloco.rank_state_dict().empty(), saved_after == 3);
      copy.load_state_dict(model.state_dict());
      resumed.load_state_dict(diloco.state_dict());
      resumed.load_rank_state_dict(diloco.rank_state_dict());
      diloco.use_own();
      resumed.use_own();
      for (int step = saved_after; step < 8; ++step) {
        inner_step(model, optimizer, step, rank, 2);
        inner_step(copy, of_copy, step, rank, 2);
        EXPECT_EQ(diloco.step(), resumed.step());
        EXPECT_EQ(numbers(model), numbers(copy)) << "step " << step << " on rank " << rank;
      }
    });
  }
}

TEST(DiLoCo, restart_takes_weights_that_were_loaded_later) {
  auto model = plain_network();
  DiLoCo diloco(model, local_group(), {.inner_steps = 1, .outer = local_sgd});
  auto other = plain_network();
  model.load_state_dict(other.state_dict());
  diloco.restart();
  EXPECT_TRUE(diloco.step());  // no inner step has changed the weights, so their outer gradient is zero
  EXPECT_EQ(numbers(model), numbers(other));
}

TEST(DiLoCo, says_what_is_wrong) {
  auto model = plain_network();
  expect_parts(error_of([&] { DiLoCo(model, local_group(), {.inner_steps = 0}); }),
               {"inner_steps is 0, but must be at least 1"});
  expect_parts(error_of([&] { DiLoCo(model, nullptr); }), {"DiLoCo"});
  expect_parts(error_of([&] { DiLoCo(model, local_group(), {.outer = {.lr = -1}}); }), {"lr must be at least 0"});

  DiLoCo diloco(model, local_group(), {.inner_steps = 2});
  diloco.step();
  diloco.use_mean();
  expect_parts(error_of([&] { diloco.step(); }), {"the model holds the means of all ranks: call use_own()"});
  diloco.use_own();
  Tensor weight = model.parameters()[0].tensor;
  weight.set_requires_grad(false);
  expect_parts(error_of([&] { diloco.step(); }),
               {"the model has 3 parameters that require a gradient, but had 4 at first"});
  weight.set_requires_grad(true);
  for (const char* name : {"shared", "shared/momentum"})
    expect_parts(error_of([&] { diloco.load_state_dict({{name, ops::zeros({1})}}); }), {name, "shape (1)"});
  for (const double count : {-1.0, 1e30, std::nan("")})
    expect_parts(error_of([&] {
                   diloco.load_state_dict({{"inner_steps", ops::full({1}, count, DType::f64)}});
                 }),
                 {"the saved number of inner steps is"});
  expect_parts(error_of([&] { diloco.load_rank_state_dict({{"own", ops::zeros({1})}}); }), {"own", "shape (1)"});
}

TEST(DiLoCo, a_rank_that_misses_an_outer_step_is_named) {
  const auto results = run_ranks_catching(3, [](Group group) {
    auto model = plain_network();
    DiLoCo diloco(model, group, {.inner_steps = 2});
    diloco.step();
    TANDEM_CHECK(group->rank() != 1, "this rank fails");
    diloco.step();
  });
  for (const int r : {0, 2}) {
    EXPECT_TRUE(testing::is_peer_error(results[r]));
    expect_parts(message_of(results[r]), {"weights of the ranks", "rank 1"});
  }
}

}  // namespace
}  // namespace tandem::distributed
