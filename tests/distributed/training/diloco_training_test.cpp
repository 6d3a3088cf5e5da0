// --strategy localsgd and diloco: a Trainer whose ranks train alone between two averages of their weights.
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/ema.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <limits>
#include <mutex>

namespace tandem::distributed {
namespace {

using testing::expect_parts;
using testing::fifty_samples;
using testing::Group;
using testing::run_ranks;

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

struct Options : TrainingOptions {
  explicit Options(StrategyChoice choice) : TrainingOptions("diloco_test", "") {
    strategy = choice;
    inner_steps = 3;
    epochs = 2;
    batch_size = 4;
  }
};

std::vector<float> numbers(const nn::Module& model) {
  std::vector<float> all;
  for (const auto& [name, array] : model.state_dict())
    for (const float value : array.to(DType::f32).to_vector<float>()) all.push_back(value);
  return all;
}

void expect_equal_parameters(const nn::Module& model, ProcessGroup& group) {
  double sum = 0;
  for (const auto& [name, tensor] : model.parameters())
    for (const float number : tensor.value().to_vector<float>()) sum += number;
  EXPECT_EQ(group.max(sum), -group.max(-sum));
}

// A job with batch norm, dropout, two optimizers and an average of the weights.
struct Job {
  Group group;
  StrategyChoice strategy = StrategyChoice::diloco;
  std::function<void(Options&)> change = [](Options&) {};
  bool evaluates = false, finds_lr = false;
  double slope = 1;  // of the loss; a large one makes f16 overflow
  std::vector<float> weights{}, average{};
  std::vector<std::int64_t> shared_after{};  // the steps after which the Trainer called back

  Job& train() {
    Options options(strategy);
    options.quiet = true;
    change(options);
    manual_seed(3);
    nn::Sequential model{testing::network_with_batch_norm(), nn::Dropout(0.3)};
    Trainer trainer(options, group, model);
    manual_seed(group->rank());  // each rank drops its own numbers
    const auto parameters = model.parameters();
    optim::SGD first({parameters.begin(), parameters.begin() + 2}, {.lr = 0.05, .momentum = 0.9});
    optim::Adam second({parameters.begin() + 2, parameters.end()}, {.lr = 0.01});
    optim::ExponentialMovingAverage slow(model.parameters(), model.buffers(), {.decay = 0.5, .use_buffers = true});
    trainer.use(first, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
    trainer.use(second);
    trainer.clip_norm(1);
    trainer.keep("slow", slow);
    trainer.after_step([&] {
      expect_equal_parameters(model, *group);
      slow.update();
      shared_after.push_back(trainer.steps());
    });
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    const auto loss_of = [&](const data::Batch& batch) {
      return slope * cross_entropy(model(batch.inputs), batch.targets);
    };
    if (finds_lr) {
      EXPECT_GT(trainer.find_lr(loader, loss_of).lrs.size(), 20U);
    }
    const auto evaluate = [&] {
      expect_equal_parameters(model, *group);
      for (const float number : numbers(model)) EXPECT_EQ(group->max(number), -group->max(-number));  // buffers too
      return std::vector<Metric>{{"steps", static_cast<double>(trainer.steps()), Metric::Kind::number}};
    };
    trainer.fit(loader, loss_of, evaluates ? Trainer::Evaluate(evaluate) : Trainer::Evaluate());
    expect_equal_parameters(model, *group);
    weights = numbers(model);
    slow.swap();
    average = numbers(model);
    return *this;
  }
};

constexpr StrategyChoice both[] = {StrategyChoice::localsgd, StrategyChoice::diloco};

TEST(DiLoCoTraining, EvaluationsAndCheckpointsDoNotChangeIt) {
  for (const auto strategy : both) {
    run_ranks(2, [&](Group group) {
      const testing::TemporaryFolder folder;
      const auto name = group->broadcast_string(folder.path().string(), 0, "folder");
      const Job plain = Job{group, strategy}.train();
      Job watched{group, strategy, [&](Options& options) {
                    options.eval_every_steps = options.save_every_steps = 1;
                    options.checkpoint = name;
                  }};
      watched.evaluates = true;
      EXPECT_EQ(watched.train().weights, plain.weights);
      EXPECT_EQ(watched.average, plain.average);
      EXPECT_EQ(plain.shared_after, (std::vector<std::int64_t>{3, 6, 9, 12}));
    });
  }
}

// 14 steps, an outer step after every third. Half of the jobs use f16 with gradients that overflow at first, so a rank
// skips inner steps.
TEST(DiLoCoTraining, ResumesBitForBitWhereverItStopped) {
  for (const auto strategy : both) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      run_ranks(2, [&](Group group) {
        const auto job = [&](const std::string& folder, std::int64_t max_steps, bool resume) {
          Job all{group, strategy, [=](Options& options) {
                    options.dtype = dtype;
                    options.checkpoint = folder;
                    options.max_steps = max_steps;
                    options.resume = resume;
                  }};
          all.slope = dtype == DType::f16 && group->rank() == 1 ? 100 : 1;
          return all.train();
        };
        const auto undisturbed = job("", no_limit, false);
        for (const std::int64_t stop : {1, 6, 7, 8}) {
          const testing::TemporaryFolder folder;
          const auto name = group->broadcast_string(folder.path().string(), 0, "folder");
          job(name, stop, false);
          const auto resumed = job(name, no_limit, true);
          EXPECT_EQ(resumed.weights, undisturbed.weights) << "stopped after step " << stop;
          EXPECT_EQ(resumed.average, undisturbed.average) << "stopped after step " << stop;
          group->barrier()->wait();
        }
      });
    }
  }
}

TEST(DiLoCoTraining, FindingALearningRateLeavesNoTrace) {
  run_ranks(2, [](Group group) {
    const Job plain = Job{group}.train();
    Job finds{group};
    finds.finds_lr = true;
    EXPECT_EQ(finds.train().weights, plain.weights);
  });
}

// A sweep ends on all ranks if the gradients of one rank are not finite.
TEST(DiLoCoTraining, ASweepEndsOnAllRanks) {
  run_ranks(2, [](Group group) {
    Options options(StrategyChoice::diloco);
    options.quiet = true;
    auto model = testing::plain_network();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.05});
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    const auto curve = trainer.find_lr(loader, [&](const data::Batch& batch) {
      const Tensor loss = cross_entropy(model(batch.inputs), batch.targets);
      return group->rank() == 1 ? loss + sqrt(loss - loss.detach()) : loss;
    });
    EXPECT_FALSE(curve.is_complete);
    EXPECT_TRUE(curve.lrs.empty());
  });
}

// In training, that rank alone fails, and is the one to blame.
TEST(DiLoCoTraining, AGradientThatIsNotFiniteIsTheErrorOfItsRank) {
  const auto results = testing::run_ranks_catching(2, [](Group group) {
    Options options(StrategyChoice::localsgd);
    options.quiet = true;
    auto model = testing::plain_network();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.05});
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    trainer.fit(loader, [&](const data::Batch& batch) {
      const Tensor loss = cross_entropy(model(batch.inputs), batch.targets);
      return group->rank() == 1 ? loss + sqrt(loss - loss.detach()) : loss;
    });
  });
  expect_parts(testing::message_of(results[1]), {"step 1: the norm of the gradients is "});
  EXPECT_FALSE(testing::is_peer_error(results[1]));
  EXPECT_TRUE(testing::is_peer_error(results[0]));
}

// Returns what rank 0 says when a job of `then` resumes from the checkpoint of a job of `first`.
std::string change(StrategyChoice first, int ranks_first, StrategyChoice then, int ranks_then) {
  const testing::TemporaryFolder folder;
  const auto run = [&](StrategyChoice strategy, int ranks, bool resume) {
    run_ranks(ranks, [&](Group group) {
      Job{group, strategy,
          [&](Options& options) {
            options.checkpoint = folder.path().string();
            options.max_steps = resume ? no_limit : 5;
            options.resume = resume;
            options.quiet = false;
          }}
          .train();
    });
  };
  run(first, ranks_first, false);
  ::testing::internal::CaptureStderr();
  run(then, ranks_then, true);
  return ::testing::internal::GetCapturedStderr();
}

TEST(DiLoCoTraining, AJobMayContinueWithAnotherStrategyOrNumberOfProcesses) {
  using S = StrategyChoice;
  expect_parts(change(S::ddp, 2, S::diloco, 2), {"the checkpoint has no \"diloco\", which starts afresh"});
  expect_parts(change(S::diloco, 2, S::ddp, 2), {"ignored, as not kept by this run: object \"diloco\""});
  const auto text = change(S::diloco, 2, S::localsgd, 2);
  EXPECT_EQ(text.find("note: the checkpoint has no"), std::string::npos) << text;
  expect_parts(text, {"strategy localsgd: each rank trains alone, and all average their weights after every 3 steps"});
  expect_parts(change(S::diloco, 2, S::diloco, 3),
               {"2 processes wrote the checkpoint; ignored its weights and optimizer state of each rank"});
}

}  // namespace
}  // namespace tandem::distributed
