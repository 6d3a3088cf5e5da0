// --strategy: a Trainer computes the same weights, whichever strategy averages the gradients.
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/groups/group_backend.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/ema.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "../../../apps/examples/muon.h"

namespace tandem::distributed {
namespace {

using testing::error_of;
using testing::expect_parts;
using testing::fifty_samples;
using testing::Group;
using testing::run_ranks;

struct Options : TrainingOptions {
  explicit Options(const std::string& name) : TrainingOptions("strategy_test", "") {
    strategy = value_named<StrategyChoice>(name);
    quiet = true;
    inner_steps = 3;
    epochs = 2;
    batch_size = 4;
    threads = 2;  // for dp
  }
  double max_norm = 1;  // 0: gradients are not clipped
  float loss_factor = 1;
};

nn::Sequential network() {
  manual_seed(3);
  auto plain = testing::plain_network();
  return nn::Sequential{std::move(plain), nn::Dropout(0)};
}

Tensor loss_of(nn::Module& model, const data::Batch& batch) {
  return cross_entropy(model(batch.inputs), batch.targets);
}

// Trains with this number of ranks. Returns rank 0's parameters, which are the same on all ranks.
std::vector<float> train(
    int ranks, const std::string& strategy, const std::function<void(Options&)>& change = [](Options&) {},
    double dropout = 0) {
  std::mutex mutex;
  std::vector<std::vector<float>> of_ranks;
  run_ranks(
      ranks,
      [&](Group group) {
        Options options(strategy);
        change(options);
        const auto make = [&] { return nn::Sequential{testing::plain_network(), nn::Dropout(dropout)}; };
        manual_seed(3);
        auto model = make();
        Trainer trainer(options, group, model, [&] { return std::make_unique<nn::Sequential>(make()); });
        optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
        trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
        if (options.max_norm > 0) trainer.clip_norm(options.max_norm);
        data::Loader loader(fifty_samples(), options.loader_options(*group));
        trainer.fit(loader, [&](nn::Module& one, const data::Batch& batch) {
          return options.loss_factor * loss_of(one, batch);
        });
        std::vector<float> mine;
        for (const auto& parameter : model.parameters())
          for (const float value : parameter.tensor.value().to_vector<float>()) mine.push_back(value);
        const std::lock_guard lock(mutex);
        of_ranks.push_back(mine);
      },
      std::chrono::seconds(60), "shm");
  for (const auto& mine : of_ranks) EXPECT_EQ(mine, of_ranks[0]) << strategy;
  return of_ranks[0];
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& found, const std::string& what) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected[i], found[i], 1e-5) << what << ", number " << i;
}

// Half of a float is exact, and two numbers have the same sum in either order.
TEST(Strategy, EachOneGivesTheBitsOfDdpOnTwoRanks) {
  const auto ddp = train(2, "ddp");
  EXPECT_EQ(train(2, "ring"), ddp);
  EXPECT_EQ(train(2, "ps"), ddp);
  EXPECT_EQ(train(2, "hierarchical"), ddp);
  for (const char* strategy : {"ring", "ps", "hierarchical"})
    expect_near(train(3, "ddp"), train(3, strategy), strategy);
}

// With one process, all strategies are the same. The batch of two replicas is that of two ranks together.
TEST(Strategy, ReplicasTrainAsRanksDo) {
  const auto twice = [](Options& options) { options.batch_size *= 2; };
  expect_near(train(2, "ddp"), train(1, "dp", twice), "2 replicas and 2 ranks");
  const auto one = [](Options& options) { options.threads = 1; };
  const auto alone = train(1, "ddp");
  EXPECT_EQ(train(1, "dp", one), alone);
  EXPECT_EQ(train(1, "ring"), alone);
  EXPECT_EQ(train(1, "ps"), alone);
  EXPECT_EQ(train(1, "hierarchical"), alone);
}

// The norm of the gradients, by which they are clipped, is a sum over the shards in another order.
TEST(Strategy, ZeroGivesTheBitsOfDdpUnlessItClips) {
  const auto unclipped = [](Options& options) { options.max_norm = 0; };
  const auto in_bf16 = [](Options& options) {
    options.max_norm = 0;
    options.dtype = DType::bf16;
  };
  const auto in_f16 = [](Options& options) {
    options.max_norm = 0;
    options.dtype = DType::f16;
    options.loss_factor = 8;  // the gradients overflow at the first loss scale, so all ranks skip the first step
  };
  for (const char* strategy : {"zero1", "zero2"}) {
    for (const int ranks : {1, 2, 3}) {
      EXPECT_EQ(train(ranks, strategy, unclipped), train(ranks, "ddp", unclipped)) << strategy << ' ' << ranks;
      expect_near(train(ranks, "ddp"), train(ranks, strategy), strategy);
    }
    EXPECT_EQ(train(2, strategy, in_bf16), train(2, "ddp", in_bf16)) << strategy;
    EXPECT_EQ(train(2, strategy, in_f16), train(2, "ddp", in_f16)) << strategy;
  }
}

// Trains with one strategy until the middle of an epoch, and then with another one.
TEST(Strategy, ACheckpointOfZeroSuitsEveryStrategy) {
  const auto whole = train(2, "ddp", [](Options& options) { options.max_norm = 0; });
  const auto part = [](const testing::TemporaryFolder& folder, bool resume) {
    return [&folder, resume](Options& options) {
      options.max_norm = 0;
      options.checkpoint = folder.path().string();
      options.resume = resume;
      if (!resume) options.max_steps = 3;
    };
  };
  for (const auto& [first, second] : {std::pair("zero1", "zero2"), {"zero2", "ddp"}, {"ddp", "zero1"}}) {
    const testing::TemporaryFolder folder, of_ddp;
    train(2, first, part(folder, false));
    EXPECT_EQ(train(2, second, part(folder, true)), whole) << first << ", then " << second;
    // The samples that are left are divided among three ranks.
    const testing::TemporaryFolder larger;
    train(2, first, part(larger, false));
    train(2, "ddp", part(of_ddp, false));
    EXPECT_EQ(train(3, second, part(larger, true)), train(3, "ddp", part(of_ddp, true))) << first << ", " << second;
  }
}

// Trains on two ranks with two optimizers and an average of the weights. Returns the losses of the last two evaluations
// and the average.
std::vector<float> train_with_two_optimizers(const std::string& strategy, const std::function<void(Options&)>& change,
                                             bool tries_learning_rates = false) {
  std::vector<float> found;
  run_ranks(
      2,
      [&](Group group) {
        Options options(strategy);
        options.eval_every_steps = 2;
        change(options);
        auto model = network();
        Trainer trainer(options, group, model);
        const auto parameters = model.parameters();
        optim::SGD first({parameters[0], parameters[1]}, {.lr = 0.05, .momentum = 0.9});
        optim::Adam second({parameters[2], parameters[3]}, {.lr = 0.01});
        trainer.use(first);
        trainer.use(second);
        optim::ExponentialMovingAverage average(parameters, {}, {.decay = 0.5});
        trainer.keep("average", average);
        trainer.after_step([&] { average.update(); });
        data::Loader loader(fifty_samples(), options.loader_options(*group));
        const auto loss = [&](const data::Batch& batch) { return loss_of(model, batch); };
        if (tries_learning_rates) {
          EXPECT_EQ(trainer.find_lr(loader, loss, {.last = 1e-3, .steps = 12}).lrs.size(), 12u);
        }
        std::vector<float> numbers;
        const auto some_samples = fifty_samples().get(std::vector<std::int64_t>{0, 1, 2, 3});
        trainer.fit(loader, loss, [&] {
          numbers.push_back(static_cast<float>(loss(some_samples).value().item()));
          return std::vector<Metric>{{"loss", numbers.back()}};
        });
        if (group->rank() > 0) return;
        numbers.erase(numbers.begin(), numbers.end() - 2);
        for (const auto& entry : average.averages())
          for (const float value : entry.array.to_vector<float>()) numbers.push_back(value);
        found = numbers;
      },
      std::chrono::seconds(60), "shm");
  return found;
}

TEST(Strategy, ZeroKeepsTwoOptimizersAnAverageAndTheLearningRateTrial) {
  const auto whole = train_with_two_optimizers("ddp", [](Options&) {});
  for (const char* strategy : {"ddp", "zero1", "zero2"}) {
    const testing::TemporaryFolder folder;
    const auto part = [&folder](bool resume) {
      return [&folder, resume](Options& options) {
        options.checkpoint = folder.path().string();
        options.resume = resume;
        if (!resume) options.max_steps = 3;
      };
    };
    train_with_two_optimizers(strategy, part(false), true);
    EXPECT_EQ(train_with_two_optimizers(strategy, part(true)), whole) << strategy;
  }
}

TEST(Strategy, ZeroRefusesAnOptimizerForWholeParameters) {
  run_ranks(2, [](Group group) {
    const Options options("zero2");
    nn::Sequential model{nn::Flatten(), nn::Linear(64, 10, {.bias = false})};
    Trainer trainer(options, group, model);
    Muon optimizer(model.parameters(), {});
    expect_parts(error_of([&] { trainer.use(optimizer); }),
                 {"--strategy zero2 can't divide the state of Muon, which computes with whole parameters: use "
                  "--strategy ddp"});
  });
}

TEST(Strategy, EachOneAccumulatesAndGoesOnToTheBit) {
  for (const char* strategy : {"ddp", "ring", "hierarchical", "ps", "dp", "localsgd", "diloco", "zero1", "zero2"}) {
    const int ranks = std::string(strategy) == "dp" ? 1 : 2;
    const testing::TemporaryFolder folder;
    const auto accumulates = [](Options& options) { options.accumulate = 2; };
    const auto undisturbed = train(ranks, strategy, accumulates, 0.3);
    const auto stopped = [&](std::int64_t max_steps, bool resume) {
      return [&folder, max_steps, resume](Options& options) {
        options.accumulate = 2;
        options.checkpoint = folder.path().string();
        options.max_steps = max_steps;
        options.resume = resume;
      };
    };
    train(ranks, strategy, stopped(2, false), 0.3);
    EXPECT_EQ(train(ranks, strategy, stopped(std::numeric_limits<std::int64_t>::max(), true), 0.3), undisturbed)
        << strategy;
  }
}

TEST(Strategy, ReplicasNeedAProgramThatMakesThem) {
  run_ranks(1, [](Group group) {
    const Options options("dp");
    auto model = network();
    const auto expected = [](const std::string& error) {
      expect_parts(error, {"--strategy dp: strategy_test does not define how to make a replica"});
    };
    expected(error_of([&] { const Trainer trainer(options, group, model); }));
    Trainer trainer(options, group, model, [] { return std::make_unique<nn::Sequential>(network()); });
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    expected(error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); }));
    expected(error_of([&] { trainer.batches(loader); }));
  });
}

TEST(Strategy, ZeroEndsOnAllRanksIfAShardIsNotFinite) {
  for (const char* strategy : {"zero1", "zero2"}) {
    const auto results = testing::run_ranks_catching(2, [&](Group group) {
      Options options(strategy);
      options.max_norm = 0;
      auto model = network();
      Trainer trainer(options, group, model);
      optim::SGD optimizer(model.parameters(), {.lr = 0.05});
      trainer.use(optimizer);
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      // Rank 0 computes an infinite gradient of one weight: the last one, which is in the last rank's shard.
      const Tensor last = model.parameters()[2].tensor;
      trainer.fit(loader, [&](const data::Batch& batch) {
        const Tensor loss = loss_of(model, batch);
        const Tensor one = reshape(last, {-1})[last.numel() - 1];
        return group->rank() == 0 ? loss + sqrt(one - one.detach()) : loss;
      });
    });
    expect_parts(testing::message_of(results[0]), {"step 1: the norm of the gradients is ", "DetectAnomaly", "sqrt"});
    expect_parts(testing::message_of(results[1]), {"step 1: the norm of the gradients is ", "see the other ranks"});
  }
}

// Only the server has the mean gradient.
TEST(Strategy, AGradientThatIsNotFiniteIsTheServersError) {
  const auto results = testing::run_ranks_catching(2, [](Group group) {
    const Options options("ps");
    auto model = network();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.05});
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    trainer.fit(loader, [&](const data::Batch& batch) {
      const Tensor loss = loss_of(model, batch);
      return group->rank() == 1 ? loss + sqrt(loss - loss.detach()) : loss;
    });
  });
  expect_parts(testing::message_of(results[0]), {"step 1: the norm of the gradients is "});
}

}  // namespace
}  // namespace tandem::distributed
