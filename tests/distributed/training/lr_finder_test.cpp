// Tests the learning-rate finder: its sweep over known losses, and over real training.
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/training/lr_finder.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/process.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <cmath>
#include <limits>
#include <mutex>

namespace tandem::distributed {
namespace {

using testing::expect_parts;
using testing::Group;
using testing::run_ranks;

// A loss that falls near a rate of 0.01 and explodes above 1.
double valley(double lr) { return 2 + 1 / (1 + std::pow(lr / 0.01, 2)) + (lr > 1 ? std::pow(lr, 4) : 0); }

TEST(LrSweep, SuggestsWhereTheLossFallsFastestAndEndsWhereItDiverges) {
  const LrCurve curve = sweep_learning_rates({.smoothing = 0}, valley);
  ASSERT_TRUE(curve.suggestion);
  EXPECT_NEAR(std::log10(*curve.suggestion), -2, 0.1);
  EXPECT_FALSE(curve.is_complete);
  EXPECT_LT(curve.lrs.back(), 3);
  EXPECT_EQ(curve.lrs.front(), 1e-7);
  EXPECT_EQ(curve.losses, curve.smooth);
  for (std::size_t i = 1; i < curve.lrs.size(); ++i)
    EXPECT_NEAR(curve.lrs[i] / curve.lrs[i - 1], std::pow(1e8, 1.0 / 99), 1e-9);
  // The smoothed loss lags behind.
  const LrCurve smooth = sweep_learning_rates({}, valley);
  ASSERT_TRUE(smooth.suggestion);
  EXPECT_GT(*smooth.suggestion, *curve.suggestion);
  EXPECT_LT(*smooth.suggestion, 0.5);
}

TEST(LrSweep, EndsWithALossThatIsNotFiniteAndSuggestsNothingWhereNothingFalls) {
  const auto until = [](double limit) {
    return [limit](double lr) { return lr < limit ? 1.0 : std::numeric_limits<double>::quiet_NaN(); };
  };
  const LrCurve curve = sweep_learning_rates({}, until(1));
  EXPECT_FALSE(curve.is_complete);
  EXPECT_LT(curve.lrs.back(), 1);
  EXPECT_FALSE(curve.suggestion);
  EXPECT_TRUE(sweep_learning_rates({}, until(100)).is_complete);
  EXPECT_TRUE(sweep_learning_rates({}, until(0)).lrs.empty());
  EXPECT_THROW(sweep_learning_rates({.first = 0}, valley), Error);
  EXPECT_THROW(sweep_learning_rates({.first = 1, .last = 0.1}, valley), Error);
  EXPECT_THROW(sweep_learning_rates({.steps = 2}, valley), Error);
}

struct Options : TrainingOptions {
  Options() : TrainingOptions("lr_test", "") {
    quiet = true;
    epochs = 2;
    batch_size = 4;
  }
};

nn::Sequential network() {
  manual_seed(3);
  return nn::Sequential{nn::Flatten(), nn::Linear(64, 32), nn::BatchNorm1d(32),
                        nn::ReLU(),    nn::Dropout(0.2),   nn::Linear(32, 10)};
}

// Trains, with or without a sweep before. Returns the model's parameters, and the curve.
std::pair<std::vector<float>, LrCurve> train(Group group, bool finds_lr, std::int64_t accumulate = 1) {
  static const testing::Samples some(0, 48);
  const data::ArrayDataset samples(some.images, some.labels);
  Options options;
  options.accumulate = accumulate;
  auto model = network();
  Trainer trainer(options, group, model);
  const auto parameters = model.parameters();
  optim::SGD first({{{parameters[0]}, {.lr = 0.1, .momentum = 0.9}}, {{parameters[1]}, {.lr = 1, .momentum = 0.9}}});
  optim::Adam second({parameters.begin() + 2, parameters.end()}, {.lr = 0.01});
  trainer.use(first, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
  trainer.use(second);
  data::Loader loader(samples, options.loader_options(*group));
  const auto loss_of = [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); };
  LrCurve curve;
  if (finds_lr) {
    curve = trainer.find_lr(loader, loss_of);
    EXPECT_EQ(first.lr(0), 0.1);
    EXPECT_EQ(first.lr(1), 1);
    EXPECT_EQ(second.lr(), 0.01);
    EXPECT_TRUE(first.state_dict().empty());
    EXPECT_TRUE(second.state_dict().empty());
  }
  trainer.fit(loader, loss_of);
  std::vector<float> numbers;
  for (const auto& [name, array] : model.state_dict())
    for (const float value : array.to(DType::f32).to_vector<float>()) numbers.push_back(value);
  return {numbers, curve};
}

TEST(Trainer, FindingALearningRateLeavesNoTrace) {
  for (const std::int64_t accumulate : {1, 3}) {
    for (const int ranks : {1, 2}) {
      std::mutex mutex;
      std::vector<std::vector<double>> losses;
      run_ranks(ranks, [&](Group group) {
        const auto plain = train(group, false, accumulate).first;
        const auto [after, curve] = train(group, true, accumulate);
        EXPECT_EQ(plain, after);
        EXPECT_GT(curve.lrs.size(), 20u);
        const std::lock_guard lock(mutex);
        losses.push_back(curve.losses);
      });
      for (const auto& of_rank : losses) EXPECT_EQ(of_rank, losses[0]);  // the same on all ranks
    }
  }
}

// The layers are used in a different order from that of registration, so the first backward pass changes the order of
// the gradients.
struct Twisted : nn::Module {
  nn::Linear& last = add("last", nn::Linear(256, 10));
  nn::Linear& first = add("first", nn::Linear(64, 250));
  nn::Linear& middle = add("middle", nn::Linear(250, 256));
  Tensor forward(const Tensor& x) override { return last(relu(middle(relu(first(reshape(x, {x.dim(0), 64})))))); }
};

// A ring adds the numbers of three ranks in an order that depends on their position in a bucket.
TEST(Trainer, FindingALearningRateLeavesTheOrderOfTheGradients) {
  const testing::Samples some(0, 48);
  const data::ArrayDataset samples(some.images, some.labels);
  for (const std::string backend : {"gloo", "shm"}) {
    testing::run_ranks(
        3,
        [&](Group group) {
          const auto train = [&](bool finds_lr) {
            const Options options;
            manual_seed(3);
            Twisted model;
            Trainer trainer(options, group, model);
            optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
            trainer.use(optimizer);
            data::Loader loader(samples, options.loader_options(*group));
            const auto loss_of = [&](const data::Batch& b) { return cross_entropy(model(b.inputs), b.targets); };
            if (finds_lr) {
              static_cast<void>(trainer.find_lr(loader, loss_of));
              EXPECT_TRUE(trainer.ddp().state_dict().empty());
            }
            trainer.fit(loader, loss_of);
            EXPECT_FALSE(trainer.ddp().state_dict().empty());
            return model.middle.weight.value().to_vector<float>();
          };
          EXPECT_EQ(train(false), train(true)) << backend;
        },
        std::chrono::seconds(60), backend);
  }
}

TEST(Trainer, DrawsTheLearningRatesInsteadOfTraining) {
  const testing::TemporaryFolder folder;
  const testing::Samples some(0, 48);
  const data::ArrayDataset samples(some.images, some.labels);
  run_ranks(2, [&](Group group) {
    Options options;
    options.find_lr = (folder / "lr.svg").string();
    options.max_steps = 20;
    auto model = network();
    std::vector<std::vector<float>> before;
    for (const auto& [name, array] : model.state_dict()) before.push_back(array.to(DType::f32).to_vector<float>());
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    trainer.use(optimizer);
    data::Loader loader(samples, options.loader_options(*group));
    int batches = 0;
    trainer.fit(loader, [&](const data::Batch& batch) {
      ++batches;
      return cross_entropy(model(batch.inputs), batch.targets);
    });
    std::size_t i = 0;
    for (const auto& [name, array] : model.state_dict())
      EXPECT_EQ(array.to(DType::f32).to_vector<float>(), before[i++]) << name;
    EXPECT_THROW(trainer.steps(), Error);  // nothing was trained
    EXPECT_LE(batches, 20);
  });
  const std::string svg = testing::read_bytes(folder / "lr.svg");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  expect_parts(
      svg, {"<title>lr_test: loss by learning rate</title>", ">1e-7<", ">learning rate<", "<polyline points=\"64.0,"});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Trainer, FindsNoLearningRateWithoutWhatItNeeds) {
  run_ranks(1, [&](Group group) {
    const Options options;
    const testing::Samples some(0, 8);
    const data::ArrayDataset samples(some.images, some.labels);
    auto model = network();
    data::Loader loader(samples, options.loader_options(*group));
    const auto loss_of = [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); };
    Trainer trainer(options, group, model);
    expect_parts(testing::error_of([&] { trainer.find_lr(loader, loss_of); }), {"call use(optimizer) first"});
    optim::SGD optimizer(model.parameters(), {.lr = 0});
    trainer.use(optimizer);
    expect_parts(testing::error_of([&] { trainer.find_lr(loader, loss_of); }), {"learning rate 0", "above 0"});
  });
}

}  // namespace
}  // namespace tandem::distributed
