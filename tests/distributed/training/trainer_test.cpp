// Trainer computes the same numbers as a hand-written loop. Other tests cover its additional features.
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/job/shared_data.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/ema.h>
#include <tandem/optim/lr_scheduler.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/process.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

namespace tandem::distributed {
namespace {

using testing::expect_parts;
using testing::expect_same;
using testing::fifty_samples;
using testing::Group;
using testing::run_ranks;

// An empty command line, for a group whose ranks are threads.
struct Options : TrainingOptions {
  Options() : TrainingOptions("trainer_test", "") {
    quiet = true;
    epochs = 2;
    batch_size = 4;
  }
};

nn::Sequential network() {
  manual_seed(3);
  return testing::plain_network();
}

optim::SGD sgd(nn::Module& model) { return {model.parameters(), {.lr = 0.1, .momentum = 0.9}}; }

Tensor loss_of(nn::Module& model, const data::Batch& batch) {
  return cross_entropy(model(batch.inputs), batch.targets);
}

void expect_equal_models(nn::Module& expected, nn::Module& found) {
  const auto a = expected.state_dict(), b = found.state_dict();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) expect_same(a[i].array, b[i].array, a[i].name);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The loop that Trainer replaces, without accumulation.
void train_by_hand(nn::Module& model, Group group, const Options& options, double max_norm) {
  DistributedDataParallel ddp(model, group);
  auto optimizer = sgd(model);
  data::Loader loader(fifty_samples(), options.loader_options(*group));
  optim::LrScheduler schedule(optimizer, optim::CosineAnnealingLR{.T_max = options.epochs * loader.size()});
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) {
      optimizer.zero_grad();
      loss_of(model, batch).backward();
      optim::clip_grad_norm_(model.parameters(), max_norm);
      optimizer.step();
      schedule.step();
    }
  }
}

TEST(Trainer, FitAndTheWrittenLoopGiveTheBitsOfALoopByHand) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Group group) {
      Options options;
      auto by_hand = network(), fitted = network(), written = network();
      train_by_hand(by_hand, group, options, 0.5);
      const auto train = [&](nn::Module& model, auto with) {
        Trainer trainer(options, group, model);
        auto optimizer = sgd(model);
        trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
        trainer.clip_norm(0.5);
        data::Loader loader(fifty_samples(), options.loader_options(*group));
        with(trainer, loader);
        EXPECT_EQ(trainer.steps(), options.epochs * loader.size());
        EXPECT_EQ(trainer.epoch(), options.epochs);
      };
      train(fitted, [&](Trainer& trainer, data::Loader& loader) {
        trainer.fit(loader, [&](const data::Batch& batch) { return loss_of(fitted, batch); });
      });
      train(written, [&](Trainer& trainer, data::Loader& loader) {
        for (auto& batch : trainer.batches(loader)) trainer.step(loss_of(written, batch));
      });
      expect_equal_models(by_hand, fitted);
      expect_equal_models(by_hand, written);
    });
  }
}

// The loss is weighted by sample. The weights are the third array of a batch, or the second one of a batch without
// targets.
TEST(Trainer, GivesTheLossAllArraysOfABatch) {
  for (const bool has_targets : {true, false}) {
    run_ranks(2, [&](Group group) {
      Options options;
      const Array inputs = ops::arange(20).reshape({10, 2}).to(DType::f32), rows = ops::arange(10);
      const data::ArrayDataset dataset(inputs, has_targets ? rows : Array(), {inputs.select(1, 0).clone(), rows});
      nn::Linear model(2, 1);
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      data::Loader loader(dataset, options.loader_options(*group));
      int batches = 0;
      trainer.fit(loader, [&](const data::Batch& batch) {
        ++batches;
        EXPECT_EQ(batch.targets.defined(), has_targets);
        EXPECT_EQ(batch.more.size(), 2u);
        EXPECT_EQ(batch.more[0].to_vector<float>(), (batch.inputs.select(1, 0).to_vector<float>()));
        EXPECT_EQ(batch.more[1].dtype(), DType::i64);
        return mean(model(Tensor(batch.inputs)) * Tensor(batch.more[0].unsqueeze(1)));
      });
      EXPECT_EQ(batches, 4);
    });
  }
}

// 50 samples are four steps of 12 samples and one of 2, with batches of 12 and with batches of 5, 5 and 2.
TEST(Trainer, AccumulationIsTheLargeBatch) {
  const auto train = [&](std::int64_t batch_size, std::int64_t accumulate) {
    auto model = network();
    run_ranks(1, [&](Group group) {
      Options options;
      options.batch_size = batch_size;
      options.accumulate = accumulate;
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      // The samples are in order, so both runs have the same samples in each step.
      data::Loader loader(fifty_samples(), {.batch_size = batch_size});
      trainer.fit(loader, [&](const data::Batch& batch) { return loss_of(model, batch); });
      EXPECT_EQ(trainer.steps(), 2 * 5);
    });
    return model;
  };
  auto large = train(12, 1), small = train(3, 4);
  const auto expected = large.state_dict(), found = small.state_dict();
  for (std::size_t i = 0; i < expected.size(); ++i)
    testing::expect_close(expected[i].array, found[i].array, 1e-4, expected[i].name);
}

TEST(Trainer, EachBatchNeedsOneStep) {
  run_ranks(1, [&](Group group) {
    const Options options;
    auto model = network();
    auto optimizer = sgd(model);
    data::Loader loader(fifty_samples(), {.batch_size = 10});
    {
      Trainer trainer(options, group, model);
      trainer.use(optimizer);
      expect_parts(error_of([&] { trainer.step(Tensor(ops::zeros({}))); }), {"once for each batch"});
      expect_parts(error_of([&] {
                     for (auto& batch : trainer.batches(loader)) static_cast<void>(batch);
                   }),
                   {"step(loss) was not called for this batch"});
    }
    {
      Trainer trainer(options, group, model);
      trainer.use(optimizer);
      expect_parts(error_of([&] {
                     for (auto& batch : trainer.batches(loader)) {
                       trainer.step(loss_of(model, batch));
                       trainer.step(loss_of(model, batch));
                     }
                   }),
                   {"once for each batch"});
      expect_parts(error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); }),
                   {"it has trained already"});
    }
    {
      Trainer trainer(options, group, model);
      expect_parts(error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); }),
                   {"call use(optimizer) first"});
      expect_parts(error_of([&] { trainer.steps(); }), {});
    }
    {
      Trainer another(options, group, model);
      another.use(optimizer);
      expect_parts(error_of([&] { another.fit(loader, [&](const data::Batch& b) { return model(b.inputs); }); }),
                   {"the loss of a batch must be one number, got the shape (10, 10)"});
    }
    auto other_model = network();
    Trainer of_another_model(options, group, model);
    of_another_model.use(optimizer);
    expect_parts(
        error_of([&] { of_another_model.fit(loader, [&](const data::Batch& b) { return loss_of(other_model, b); }); }),
        {"no parameter of the optimizers has a gradient", "the Trainer's model"});
  });
}

// The eighth sample's image contains NaN.
TEST(Trainer, ALossThatIsNotFiniteNamesTheOperationAndChangesNothing) {
  auto images = fifty_samples().inputs().clone();
  images.select(0, 7).fill(std::numeric_limits<double>::quiet_NaN());
  const data::ArrayDataset damaged(images, fifty_samples().targets());
  const testing::TemporaryFolder folder;
  auto model = network();
  std::vector<NamedArray> before;
  run_ranks(1, [&](Group group) {
    Options options;
    options.checkpoint = (folder / "c").string();
    options.save_every_steps = 1;
    options.save = (folder / "model.safetensors").string();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    trainer.after_step([&] {
      before.clear();
      for (const auto& [name, array] : model.state_dict()) before.push_back({name, array.clone()});
    });
    data::Loader loader(damaged, {.batch_size = 4});
    expect_parts(error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); }),
                 {"step 2: the loss is nan", "in 0 (Conv2d)", "in the result of conv2d"});
  });
  const auto after = model.state_dict();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < after.size(); ++i) expect_same(before[i].array, after[i].array, after[i].name);
  EXPECT_TRUE(std::filesystem::exists(folder / "c/checkpoint-0000-00000001.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "c/checkpoint-0000-00000002.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
}

// Returns whether all labels are void, as in PASCAL VOC if all pixels of a crop are void. cross_entropy() is then the
// mean over nothing, which is NaN, and its gradients are zero.
bool is_void(const data::Batch& batch) {
  const auto* labels = batch.targets.data<std::int64_t>();
  return std::all_of(labels, labels + batch.targets.numel(), [](std::int64_t label) { return label == -100; });
}

data::ArrayDataset with_void(const std::vector<std::int64_t>& samples) {
  const testing::Samples some(0, 50);
  for (const auto i : samples) some.labels.data<std::int64_t>()[i] = -100;
  return data::ArrayDataset(some.images, some.labels);
}

// Each batch has one sample. With two ranks, the first has the samples 0, 2, 4 and the second 1, 3, 5.
TEST(Trainer, ABatchWithoutALossIsLeftOutAndTheTrainingGoesOn) {
  for (const int ranks : {1, 2}) {
    for (const std::int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, accumulate " + std::to_string(accumulate));
      const testing::TemporaryFolder folder;
      const auto file = (folder / "metrics").string();
      const auto set = with_void({2, 3, 4, 5, 6, 7});
      run_ranks(ranks, [&](Group group) {
        Options options;
        options.epochs = 1;
        options.batch_size = 1;
        options.max_steps = 5;
        options.accumulate = accumulate;
        options.log_every = 1;
        options.metrics = file;
        auto mine = network();
        Trainer trainer(options, group, mine);
        auto optimizer = sgd(mine);
        trainer.use(optimizer);
        trainer.leave_out(is_void);
        data::Loader loader(set, {.batch_size = 1, .shard = shard_of(*group)});
        trainer.fit(loader, [&](const data::Batch& batch) { return loss_of(mine, batch); });
        EXPECT_EQ(trainer.steps(), 5);
        for (const auto& [name, array] : mine.state_dict())
          EXPECT_TRUE(std::isfinite(ops::reduce({reductions::Sum{}}, array).item())) << name;
      });
      std::istringstream lines(testing::read_bytes(file));
      std::vector<bool> have_loss;
      for (std::string line; std::getline(lines, line);) {
        if (line.find("\"step\"") != std::string::npos)
          have_loss.push_back(line.find("\"loss\":null") == std::string::npos);
        else EXPECT_EQ(line.find("\"total_loss\":null"), std::string::npos) << line;
      }
      std::vector<bool> expected = {true, true, false, false, false};
      if (ranks * accumulate == 2) expected = {true, false, false, false, true};
      if (ranks * accumulate == 4) expected = {true, false, true, true, true};
      EXPECT_EQ(have_loss, expected);
    }
  }
}

// Rank 1 has no loss in the second step. Its gradient is zero, the divisor stays 2, and the loss is rank 0's.
TEST(Trainer, ARankWithoutALossCountsInTheDivisorAlone) {
  const auto set = with_void({1});
  const testing::TemporaryFolder folder;
  auto expected = network();
  expected.zero_grad();
  const auto first = set.get(std::vector<std::int64_t>{0});
  const Tensor loss = loss_of(expected, first);
  (0.5 * loss).backward();
  sgd(expected).step();
  run_ranks(2, [&](Group group) {
    Options options;
    options.epochs = 1;
    options.batch_size = 1;
    options.max_steps = 1;
    options.log_every = 1;
    options.metrics = (folder / "metrics").string();
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    trainer.leave_out(is_void);
    data::Loader loader(set, {.batch_size = 1, .shard = shard_of(*group)});
    trainer.fit(loader, [&](const data::Batch& batch) { return loss_of(model, batch); });
    expect_equal_models(expected, model);
  });
  const auto line = testing::read_bytes(folder / "metrics");
  EXPECT_NEAR(std::stod(line.substr(line.find("\"loss\":") + 7)), loss.item(), 1e-6) << line;
}

// With --strategy dp, a replica may have a part without a loss.
TEST(Trainer, APartWithoutALossDoesNotSpoilThatOfTheOthers) {
  run_ranks(1, [&](Group group) {
    Options options;
    options.epochs = 1;
    options.batch_size = 2;
    options.threads = 2;
    options.strategy = StrategyChoice::dp;
    auto model = network();
    Trainer trainer(options, group, model, [] { return std::make_unique<nn::Sequential>(network()); });
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    trainer.leave_out(is_void);
    const auto set = with_void({1, 2, 4, 5});
    data::Loader loader(set, {.batch_size = 2});
    trainer.fit(loader, loss_of);
    EXPECT_EQ(trainer.steps(), 25);
    for (const auto& [name, array] : model.state_dict())
      EXPECT_TRUE(std::isfinite(ops::reduce({reductions::Sum{}}, array).item())) << name;
  });
}

TEST(Trainer, TheSearchForALearningRateLeavesBatchesOutToo) {
  run_ranks(2, [&](Group group) {
    Options options;
    options.batch_size = 1;
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    trainer.leave_out(is_void);
    const auto set = with_void({1, 2, 3, 6, 8, 9});
    data::Loader loader(set, {.batch_size = 1, .shard = shard_of(*group)});
    const Trainer::LossOfModel loss = [](nn::Module& net, const data::Batch& batch) { return loss_of(net, batch); };
    const auto curve = trainer.find_lr(loader, loss, {.last = 1e-3, .steps = 10});
    EXPECT_EQ(curve.losses.size(), 10u);
    for (const double one : curve.losses) EXPECT_TRUE(std::isfinite(one));
  });
}

TEST(Trainer, ANaNOfABatchWithALossStillEndsTheTraining) {
  run_ranks(1, [&](Group group) {
    Options options;
    options.batch_size = 1;
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    trainer.leave_out(is_void);
    const auto set = with_void({0, 1});
    data::Loader loader(set, {.batch_size = 1});
    const auto error = error_of([&] {
      trainer.fit(loader, [&](const data::Batch& batch) {
        return is_void(batch) ? loss_of(model, batch) : std::nan("") * loss_of(model, batch);
      });
    });
    expect_parts(error, {"step 3: the loss is nan"});
  });
}

// sqrt(0) has a finite value and an infinite slope.
TEST(Trainer, AGradientThatIsNotFiniteEndsAllRanksAlike) {
  for (const double clip : {0.0, 1.0}) {
    auto model = network();
    const auto results = testing::run_ranks_catching(2, [&](Group group) {
      auto mine = network();
      const Options options;
      Trainer trainer(options, group, mine);
      auto optimizer = sgd(mine);
      trainer.use(optimizer);
      if (clip > 0) trainer.clip_value(clip);
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      std::int64_t batches = 0;
      trainer.fit(loader, [&](const data::Batch& batch) {
        const Tensor loss = loss_of(mine, batch);
        const bool is_at_fault = group->rank() == 1 && batches++ >= 2;
        return is_at_fault ? loss + sqrt(loss - loss.detach()) : loss;
      });
    });
    expect_parts(testing::message_of(results[0]), {"step 3: the norm of the gradients is ",
                                                   "this rank's batch alone gives finite numbers: see the other"});
    EXPECT_TRUE(testing::is_peer_error(results[0]));
    EXPECT_FALSE(testing::is_peer_error(results[1]));
    expect_parts(testing::message_of(results[1]), {"step 3: the norm of the gradients is ", "DetectAnomaly", "sqrt"});
  }
}

// Returns the error of training in which `add` is a part of the loss.
std::string error_with(const std::function<Tensor(const Tensor& loss)>& add, std::int64_t accumulate = 1) {
  std::string error;
  Options options;
  options.accumulate = accumulate;
  run_ranks(1, [&](Group group) {
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    error = error_of([&] {
      trainer.fit(loader, [&](const data::Batch& batch) {
        const Tensor loss = loss_of(model, batch);
        return loss + add(loss);
      });
    });
  });
  return error;
}

// The second of four batches has the wrong gradient. The last batch completes the step.
TEST(Trainer, NamesTheOperationInAnyBatchOfTheStep) {
  int batches = 0;
  const auto add = [&](const Tensor& loss) {
    const bool is_at_fault = batches++ % 4 == 1 && batches > 4;
    return is_at_fault ? sqrt(loss - loss.detach()) : loss;
  };
  expect_parts(error_with(add, 4), {"step 2: the norm of the gradients is ", "DetectAnomaly", "sqrt"});
}

// The loss draws a random number, which decides whether a batch fails.
TEST(Trainer, NamesTheOperationWithTheRandomNumbersOfTheStep) {
  const auto add = [&](const Tensor& loss) {
    const double number = default_generator().uniform(0.0, 1.0);
    return number < 0.1 ? log(loss - loss.detach()) : loss;
  };
  expect_parts(error_with(add), {": the loss is infinite", "DetectAnomaly", "log"});
}

// The steps have made the weights infinite. The operation that uses them first must not be blamed.
TEST(Trainer, SaysThatTheWeightsAreNotFinite) {
  run_ranks(1, [&](Group group) {
    const Options options;
    auto model = network();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 1e38, .momentum = 0.9, .weight_decay = 1e3});
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    expect_parts(error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); }),
                 {"step 2: the loss is ", "The weights are not finite either: 0.weight: "});
  });
}

struct Counter {
  std::int64_t calls = 0;
  std::vector<NamedArray> state_dict() const { return {{"calls", Array::from(std::vector<std::int64_t>{calls}, {1})}}; }
  void load_state_dict(const std::vector<NamedArray>& state) {
    calls = static_cast<std::int64_t>(state.at(0).array.item());
  }
};

// A job with two optimizers, a schedule by steps and one by epochs, an average and a callback.
struct Job {
  Options options;
  nn::Sequential model = network();
  std::vector<double> rates;  // of the second optimizer
  Counter counter;

  void train(Group group) {
    Trainer trainer(options, group, model);
    auto parameters = model.parameters();
    const std::vector<NamedTensor> first(parameters.begin(), parameters.begin() + 2);
    const std::vector<NamedTensor> second(parameters.begin() + 2, parameters.end());
    optim::SGD slow(first, {.lr = 0.1, .momentum = 0.9});
    optim::Adam fast(second, {.lr = 0.01});
    optim::ExponentialMovingAverage average(model.parameters(), {}, {.decay = 0.5});
    trainer.use(slow, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
    trainer.use_by_epoch(fast, [](std::int64_t) { return optim::StepLR{.step_size = 1, .gamma = 0.5}; });
    trainer.keep("average", average);
    trainer.keep("counter", counter);
    expect_parts(error_of([&] { trainer.keep("counter", counter); }), {"the name \"counter\" is already taken"});
    expect_parts(error_of([&] { trainer.keep("a/b", counter); }), {"without a slash"});
    trainer.after_step([&] {
      average.update();
      ++counter.calls;
      rates.push_back(fast.lr());
    });
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    trainer.fit(
        loader, [&](const data::Batch& batch) { return loss_of(model, batch); },
        [&] {
          return std::vector<Metric>{{"steps", static_cast<double>(trainer.steps()), Metric::Kind::number}};
        });
    average.swap();
  }
};

TEST(Trainer, GoesOnWithAllThatItWasGiven) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [&](Group group) {
      const testing::TemporaryFolder folder;
      const auto name = group->broadcast_string(folder.path().string(), 0, "folder");
      Job undisturbed, first, second;
      undisturbed.train(group);
      EXPECT_EQ(undisturbed.rates.front(), 0.01);
      EXPECT_EQ(undisturbed.rates.back(), 0.005);
      first.options.checkpoint = second.options.checkpoint = name;
      first.options.max_steps = 5;
      first.train(group);
      second.options.resume = true;
      second.train(group);
      expect_equal_models(undisturbed.model, second.model);
      EXPECT_EQ(second.counter.calls, undisturbed.counter.calls);
      group->barrier()->wait();
    });
  }
}

// A job whose metric gets worse from the third evaluation on.
struct Evaluated {
  Options options;
  std::vector<std::int64_t> evaluated;  // the steps after which it was evaluated
  std::int64_t steps = 0;
  std::function<void(std::int64_t steps)> at_evaluation;
  int ranks = 1;  // 1 or 2, for two steps an epoch; rank 0 counts the steps above
  void train() {
    run_ranks(ranks, [&](Group group) {
      auto model = network();
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      data::Loader loader(fifty_samples(), {.batch_size = 26 / ranks, .shard = shard_of(*group)});
      trainer.fit(
          loader, [&](const data::Batch& batch) { return loss_of(model, batch); },
          [&] {
            EXPECT_FALSE(model.is_training());
            EXPECT_FALSE(grad_enabled());
            if (!trainer.is_trying_out() && group->rank() == 0) {
              evaluated.push_back(trainer.steps());
              if (at_evaluation) at_evaluation(trainer.steps());
            }
            const double distance = std::abs(static_cast<double>(trainer.steps()) - 6);
            const double never = -std::numeric_limits<double>::quiet_NaN();
            return std::vector<Metric>{{"far", distance, Metric::Kind::number}, {"never", never}};
          });
      if (group->rank() == 0) steps = trainer.steps();
      EXPECT_TRUE(model.is_training());
    });
  }
};

// Fine-tuning freezes the statistics of batch norms by eval() on a part of the model.
TEST(Trainer, AnEvaluationLeavesFrozenPartsFrozen) {
  Options options;
  options.epochs = 2;
  auto model = network();
  nn::Module& part = *model.children().front().second;
  int steps = 0;
  run_ranks(1, [&](Group group) {
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    part.eval();
    data::Loader loader(fifty_samples(), {.batch_size = 26});
    trainer.fit(
        loader,
        [&](const data::Batch& batch) {
          ++steps;
          EXPECT_TRUE(model.is_training());
          EXPECT_FALSE(part.is_training());
          return loss_of(model, batch);
        },
        [&] {
          return std::vector<Metric>{{"none", 0.0}};
        });
  });
  EXPECT_EQ(steps, 4);
}

TEST(Trainer, EvaluatesWhenItIsTold) {
  Evaluated every_second;
  every_second.options.epochs = 5;
  every_second.options.eval_every = 2;
  every_second.train();
  EXPECT_EQ(every_second.evaluated, (std::vector<std::int64_t>{4, 8, 10}));
  Evaluated by_steps;
  by_steps.options.epochs = 3;
  by_steps.options.eval_every_steps = 3;
  by_steps.train();
  EXPECT_EQ(by_steps.evaluated, (std::vector<std::int64_t>{2, 3, 4, 6}));
  Evaluated never;
  never.options.epochs = 0;
  never.train();
  EXPECT_EQ(never.evaluated, (std::vector<std::int64_t>{0}));
}

TEST(Trainer, KeepsTheBestAndEndsWithoutBetterOnes) {
  const testing::TemporaryFolder folder;
  Evaluated job;
  job.options.epochs = 20;
  job.options.keep_best = "min:far";
  job.options.patience = 4;
  job.options.keep_last = 2;
  job.options.checkpoint = folder.path().string();
  job.train();
  EXPECT_EQ(job.evaluated, (std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14}));
  // The best checkpoint has a fixed name.
  EXPECT_EQ(std::filesystem::read_symlink(folder / "best.safetensors"), "checkpoint-0003-00000006.safetensors");
  EXPECT_EQ(read_checkpoint(folder / "best.safetensors").step, 6);
  std::filesystem::remove(folder / "best.safetensors");
  auto names = folder.names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"checkpoint-0003-00000006.safetensors", "checkpoint-0006-00000012.safetensors",
                                      "checkpoint-0007-00000014.safetensors"}));
  // With the same patience, training does not continue. With more patience, it continues and knows the best evaluation.
  Evaluated again;
  again.options.epochs = 20;
  again.options.keep_best = "min:far";
  again.options.patience = 4;
  again.options.checkpoint = folder.path().string();
  again.options.resume = true;
  again.train();
  EXPECT_EQ(again.steps, 14);
  Evaluated longer;
  longer.options.epochs = 20;
  longer.options.keep_best = "min:far";
  longer.options.patience = 6;
  longer.options.checkpoint = folder.path().string();
  longer.options.resume = true;
  longer.train();
  EXPECT_EQ(longer.steps, 18);
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoint-0003-00000006.safetensors"));
}

// Returns the files that Evaluated leaves in a folder that keeps the newest checkpoint and the best ones.
struct BestOnes {
  const testing::TemporaryFolder folder;
  std::vector<std::string> after(std::int64_t epochs, const std::string& keep_best, std::int64_t top_k = 1,
                                 bool quiet = true) const {
    Evaluated job;
    job.options.quiet = quiet;
    job.options.epochs = epochs;
    job.options.keep_best = keep_best;
    job.options.top_k = top_k;
    job.options.keep_last = 1;
    job.options.checkpoint = folder.path().string();
    job.options.resume = !folder.names().empty();
    job.train();
    EXPECT_EQ(job.steps, 2 * epochs);
    std::vector<std::string> steps;  // such as "6", or "best 6" for the target of the link
    for (const auto& name : folder.names()) {
      const auto file = name == "best.safetensors" ? std::filesystem::read_symlink(folder / name).string() : name;
      const auto step = std::to_string(std::stoi(file.substr(file.rfind('-') + 1)));
      steps.push_back(name == "best.safetensors" ? "best " + step : step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
};

// A job without the option, or with a different metric, still has the best checkpoints from before.
TEST(Trainer, AJobThatGoesOnLosesNoBestCheckpoint) {
  using Steps = std::vector<std::string>;
  const BestOnes job;
  EXPECT_EQ(job.after(5, "min:far"), (Steps{"10", "6", "best 6"}));
  EXPECT_EQ(job.after(6, ""), (Steps{"12", "6", "best 6"}));
  EXPECT_EQ(job.after(7, "min:far"), (Steps{"14", "6", "best 6"}));  // step 6 is still the best
  EXPECT_EQ(job.after(8, "max:far"), (Steps{"16", "6", "best 16"}));
  EXPECT_EQ(job.after(9, "max:far"), (Steps{"18", "6", "best 18"}));  // step 16 is no longer the best
  EXPECT_EQ(job.after(10, ""), (Steps{"18", "20", "6", "best 18"}));
}

// The distances from step 6 are 4, 2, 0, 2, 4, 6, 8. A checkpoint that can't be loaded no longer counts as the best,
// and one message says so. A link to itself is a file that can't be opened. Such a file may be complete, so it stays.
TEST(Trainer, ABestCheckpointThatIsLostGivesItsPlaceAway) {
  using Steps = std::vector<std::string>;
  for (const std::string how : {"deleted", "damaged", "unreadable"}) {
    const BestOnes job;
    EXPECT_EQ(job.after(5, "min:far"), (Steps{"10", "6", "best 6"}));
    const auto best = job.folder / "checkpoint-0003-00000006.safetensors";
    if (how == "damaged") testing::write_bytes(best, testing::read_bytes(best).substr(0, 500));
    else std::filesystem::remove(best);
    if (how == "unreadable") std::filesystem::create_symlink(best.filename(), best);
    ::testing::internal::CaptureStderr();
    const auto found = job.after(7, "min:far", 1, false);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(found, how == "unreadable" ? (Steps{"12", "14", "6", "best 12"}) : (Steps{"12", "14", "best 12"}));
    const std::string warning =
        "warning: the checkpoint after 6 steps, one of the best by min:far, no longer counts as such: ";
    EXPECT_EQ(occurrences(said, warning), 1) << said;
    expect_parts(said, {how == "deleted"   ? "it is not there any more"
                        : how == "damaged" ? "truncated"
                                           : "cannot be opened",
                        "the best so far: far 6 after 12 steps"});
    EXPECT_EQ(said.find("are kept: those after 6 steps") != std::string::npos, how == "unreadable") << said;
  }
}

// The file is deleted after the evaluation of step 8 and before that of step 10.
TEST(Trainer, ABestCheckpointThatIsDeletedMeanwhileGivesItsPlaceAway) {
  const testing::TemporaryFolder folder;
  Evaluated job;
  job.options.epochs = 7;
  job.options.keep_best = "min:far";
  job.options.keep_last = 1;
  job.options.checkpoint = folder.path().string();
  job.at_evaluation = [&](std::int64_t steps) {
    if (steps != 10) return;
    EXPECT_TRUE(std::filesystem::remove(folder / "checkpoint-0003-00000006.safetensors"));
  };
  job.train();
  EXPECT_EQ(std::filesystem::read_symlink(folder / "best.safetensors"), "checkpoint-0005-00000010.safetensors");
}

// The first run's patience ends after step 14. Of the remaining checkpoints, step 16 has the best.
TEST(Trainer, PatienceBeginsAnewOnAllRanksWhenTheBestCheckpointIsLost) {
  const testing::TemporaryFolder folder;
  for (const std::int64_t end : {14, 24}) {
    Evaluated job;
    job.ranks = 2;
    job.options.epochs = 20;
    job.options.keep_best = "min:far";
    job.options.patience = 4;
    job.options.checkpoint = folder.path().string();
    job.options.resume = !folder.names().empty();
    job.train();
    EXPECT_EQ(job.steps, end);
    std::filesystem::remove(folder / "checkpoint-0003-00000006.safetensors");
  }
  EXPECT_EQ(read_checkpoint(folder / "best.safetensors").step, 16);
}

// A limit ends training in the middle of an epoch, so its total loss is only half as large. The epoch counts only when
// a later run has completed it.
TEST(Trainer, TheTotalLossOfAPartOfAnEpochIsNotTheBest) {
  const testing::TemporaryFolder folder;
  const auto best_after = [&](std::int64_t max_steps) {
    Evaluated job;
    job.options.epochs = 3;
    job.options.max_steps = max_steps;
    job.options.keep_best = "min:total_loss";
    job.options.checkpoint = folder.path().string();
    job.options.resume = max_steps > 3;
    job.train();
    return read_checkpoint(folder / "best.safetensors").step;
  };
  EXPECT_EQ(best_after(3), 2);
  EXPECT_EQ(best_after(4), 4);
}

TEST(Trainer, SaysThatNoFigureWasTheBest) {
  for (const std::int64_t patience : {0, 3}) {
    const testing::TemporaryFolder folder;
    Evaluated job;
    job.options.quiet = false;
    job.options.epochs = 4;
    job.options.keep_best = "min:never";
    job.options.patience = patience;
    job.options.checkpoint = folder.path().string();
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    job.train();
    const std::string out = ::testing::internal::GetCapturedStdout(), said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(job.steps, patience == 0 ? 8 : 6);
    expect_parts(said,
                 {patience == 0 ? "warning: there is no best checkpoint by min:never: no finite value in 4 evaluations"
                                : "3 evaluations without a better min:never: the training ends; the best was "
                                  "none, because no value was finite"});
    EXPECT_EQ(occurrences(said, "finite"), 1) << said;
    expect_parts(out, {"far 0, never nan, "});
    EXPECT_EQ(out.find("-nan"), std::string::npos) << out;
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "best.safetensors"));
  }
}

// The distances from step 6 are 4, 2, 0, 2, 4, 6, 8. Of two equal ones, the first counts as better.
TEST(Trainer, KeepsTheBestFew) {
  using Steps = std::vector<std::string>;
  const BestOnes job;
  EXPECT_EQ(job.after(3, "min:far", 3), (Steps{"2", "4", "6", "best 6"}));
  EXPECT_EQ(job.after(7, "min:far", 3), (Steps{"14", "4", "6", "8", "best 6"}));
  EXPECT_EQ(job.after(8, "min:far"), (Steps{"16", "4", "6", "8", "best 6"}));  // a smaller top_k removes none
}

// The total loss and the times are only rank 0's figures, but all ranks save at the same time.
TEST(Trainer, AllRanksFollowTheBestOfRankZero) {
  for (const char* best : {"min:total_loss", "max:images_per_second", "min:epoch_seconds"}) {
    const testing::TemporaryFolder folder;
    run_ranks(3, [&](Group group) {
      Options options;
      options.epochs = 6;
      options.keep_best = best;
      options.patience = 3;
      options.save_every = 100;
      options.checkpoint = folder.path().string();
      auto model = network();
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      trainer.fit(loader, [&](const data::Batch& batch) { return loss_of(model, batch); });
    });
    EXPECT_FALSE(folder.names().empty());
  }
}

// Evaluations in the middle of an epoch draw random numbers. A job that resumes after an evaluation has the same random
// numbers as an undisturbed job.
TEST(Trainer, AnEvaluationLeavesTheRandomNumbersOfTheTraining) {
  const auto train = [&](std::int64_t eval_every_steps, const std::string& checkpoint, std::int64_t max_steps,
                         bool resume) {
    auto model = network();
    run_ranks(1, [&](Group group) {
      Options options;
      options.eval_every_steps = eval_every_steps;
      options.checkpoint = checkpoint;
      options.max_steps = max_steps;
      options.resume = resume;
      manual_seed(5);
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      trainer.fit(
          loader,
          [&](const data::Batch& batch) {
            return cross_entropy(dropout(model(batch.inputs), 0.5, model.is_training()), batch.targets);
          },
          [&] {
            return std::vector<Metric>{{"noise", static_cast<double>(default_generator().next_u64() % 100)}};
          });
    });
    return model;
  };
  const std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const testing::TemporaryFolder folder;
  auto undisturbed = train(0, "", all, false), evaluated = train(2, "", all, false);
  expect_equal_models(undisturbed, evaluated);
  train(2, (folder / "c").string(), 5, false);
  auto resumed = train(2, (folder / "c").string(), all, true);
  expect_equal_models(undisturbed, resumed);
}

TEST(Trainer, RefusesWhatWouldBeSilentlyWrong) {
  run_ranks(1, [&](Group group) {
    const Options options;
    auto model = network();
    auto optimizer = sgd(model);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    const auto fit = [&](Trainer& trainer, std::vector<Metric> metrics) {
      return error_of([&] {
        trainer.fit(
            loader, [&](const data::Batch& batch) { return loss_of(model, batch); }, [&] { return metrics; });
      });
    };
    {
      Trainer trainer(options, group, model);
      trainer.use(optimizer);
      expect_parts(error_of([&] { trainer.use(optimizer); }), {"this optimizer is already in use"});
      expect_parts(fit(trainer, {{"total_loss", 1.0}}), {"there is already a metric \"total_loss\""});
    }
    {
      Trainer trainer(options, group, model);
      trainer.use(optimizer);
      data::Loader large_batches(fifty_samples(), {.batch_size = 51, .drop_last = true});
      expect_parts(error_of([&] {
                     trainer.fit(large_batches, [&](const data::Batch& batch) { return loss_of(model, batch); });
                   }),
                   {"the loader has no batch: 50 samples in the data set, and batches of 51"});
    }
    Trainer trainer(options, group, model);
    trainer.use(optimizer);
    expect_parts(fit(trainer, {{"a", 1.0}, {"a", 2.0}}), {"there is already a metric \"a\""});
  });
}

// A learning rate of 1e38 makes the weights infinite in a step whose loss and gradients are finite.
TEST(Trainer, WritesNoModelThatIsNotFinite) {
  const testing::TemporaryFolder folder;
  for (const int size : {1, 2}) {
    const auto checkpoints = folder / ("c" + std::to_string(size));
    const auto results = testing::run_ranks_catching(size, [&](Group group) {
      auto model = network();
      Options options;
      options.checkpoint = checkpoints.string();
      options.save_every_steps = 1;
      Trainer trainer(options, group, model);
      optim::SGD optimizer(model.parameters(), {.lr = 1e38, .momentum = 0.9, .weight_decay = 1e3});
      trainer.use(optimizer);
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); });
    });
    // Every rank is told the reason, not only that rank 0 has left.
    for (const auto& error : results)
      expect_parts(testing::message_of(error),
                   {"no checkpoint is written, because of ", " in the model: ", "not finite"});
    EXPECT_TRUE(std::filesystem::is_empty(checkpoints));
  }
}

// A model that took hours to train is not lost because somebody tidied up meanwhile.
TEST(Trainer, SavesTheModelIfItsFolderWasRenamed) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "models");
  auto model = network();
  run_ranks(1, [&](Group group) {
    Options options;
    options.save = (folder / "models" / "model.safetensors").string();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    trainer.after_step([&] {
      if (std::filesystem::exists(folder / "models")) std::filesystem::rename(folder / "models", folder / "old");
    });
    trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); });
  });
  EXPECT_EQ(load_arrays(folder / "models" / "model.safetensors").size(), model.state_dict().size());
}

TEST(Trainer, SaysThatALoopWasLeftEarly) {
  run_ranks(1, [&](Group group) {
    Options options;
    options.quiet = false;
    auto model = network();
    auto optimizer = sgd(model);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    ::testing::internal::CaptureStderr();
    {
      Trainer trainer(options, group, model);
      trainer.use(optimizer);
      for (auto& batch : trainer.batches(loader)) {
        trainer.step(loss_of(model, batch));
        break;
      }
    }
    expect_parts(::testing::internal::GetCapturedStderr(), {"the loop over the batches was left early"});
  });
}

TEST(Trainer, ABestFigureThatIsNotThereIsFoundBeforeTheTraining) {
  Evaluated job;
  job.options.keep_best = "max:accuracy";
  expect_parts(
      error_of([&] { job.train(); }),
      {"--keep-best max:accuracy", "the metrics are: total_loss, images_per_second, epoch_seconds, far, never"});
  EXPECT_EQ(job.steps, 0);
  job.options.keep_best = "accuracy";
  expect_parts(error_of([&] { job.train(); }), {"expected min:NAME or max:NAME"});
}

// The trial uses one batch of each loader, before the first step, and restores the random numbers.
TEST(Trainer, TriesTheEvaluationBeforeTheTraining) {
  run_ranks(2, [&](Group group) {
    Options options;
    options.epochs = 1;
    const testing::TemporaryFolder folder;
    options.log_dir = folder.path().string();
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group)), tests(fifty_samples(), {.batch_size = 10});
    std::vector<std::pair<bool, int>> calls;  // whether it is the trial, and the number of its batches
    const std::string before = default_generator().state();
    trainer.fit(
        loader,
        [&](const data::Batch& batch) {
          EXPECT_EQ(calls.size(), 1u);
          return loss_of(model, batch);
        },
        [&] {
          int batches = 0;
          for (auto& batch : tests) {
            EXPECT_FALSE(model(batch.inputs).requires_grad());
            ++batches;
          }
          EXPECT_EQ(tests.size(), batches);
          EXPECT_EQ(trainer.events() == nullptr, trainer.is_trying_out() || group->rank() != 0);
          if (trainer.is_trying_out()) {
            EXPECT_NE(default_generator().state(), before);
          }
          calls.emplace_back(trainer.is_trying_out(), batches);
          return std::vector<Metric>{{"batches", static_cast<double>(batches)}};
        });
    EXPECT_EQ(calls, (std::vector<std::pair<bool, int>>{{true, 1}, {false, 5}}));
  });
  // An error in the evaluation is reported before the first step.
  run_ranks(1, [&](Group group) {
    const Options options;
    auto model = network();
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    const auto evaluate = []() -> std::vector<Metric> { throw Error("the masks are missing"); };
    expect_parts(error_of([&] {
                   trainer.fit(
                       loader, [&](const data::Batch& batch) { return loss_of(model, batch); }, evaluate);
                 }),
                 {"the masks are missing"});
    EXPECT_EQ(trainer.steps(), 0);
  });
}

// The callbacks draw random numbers, and so does the next step.
TEST(Trainer, GoesOnWithTheRandomNumbersThatACallbackLeft) {
  const testing::TemporaryFolder folder;
  const auto train = [&](const std::string& checkpoint, std::int64_t max_steps, bool resume) {
    auto model = network();
    run_ranks(1, [&](Group group) {
      manual_seed(1);
      Options options;
      options.checkpoint = checkpoint;
      options.max_steps = max_steps;
      options.resume = resume;
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      trainer.after_step([] { default_generator().next_u64(); });
      data::Loader loader(fifty_samples(), options.loader_options(*group));
      trainer.fit(loader, [&](const data::Batch& batch) {
        return loss_of(model, batch) * default_generator().uniform(0.5, 1.0);
      });
    });
    return model;
  };
  constexpr std::int64_t all = 1000;
  auto undisturbed = train("", all, false);
  const std::string checkpoint = (folder / "c").string();
  train(checkpoint, 5, false);
  auto resumed = train(checkpoint, all, true);
  expect_equal_models(undisturbed, resumed);
}

struct F16Training {
  nn::Sequential model = network();
  std::int64_t steps = 0, max_steps = 1000;
  std::string out, said;
  // Trains on these images in batches of 10. Returns the error, or "".
  std::string train(const Array& images, std::int64_t epochs) {
    const data::ArrayDataset dataset(images, fifty_samples().targets());
    std::string error;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    run_ranks(1, [&](Group group) {
      Options options;
      options.dtype = DType::f16;
      options.epochs = epochs;
      options.max_steps = max_steps;
      options.quiet = false;
      options.log_every = 1;
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      data::Loader loader(dataset, {.batch_size = 10});
      error = error_of([&] { trainer.fit(loader, [&](const data::Batch& b) { return loss_of(model, b); }); });
      steps = trainer.steps();
    });
    out = ::testing::internal::GetCapturedStdout();
    said = ::testing::internal::GetCapturedStderr();
    return error;
  }
};

// The loss is NaN with every loss scale.
TEST(Trainer, AnF16LossThatStaysNanEndsTheTraining) {
  F16Training job;
  auto images = fifty_samples().inputs().clone();
  images.fill(std::numeric_limits<double>::quiet_NaN());
  const auto before = job.model.parameters()[0].tensor.value().clone();
  expect_parts(job.train(images, 100),
               {"step 30: the loss scale of f16 has fallen to 0.000061", "in 0 (Conv2d)", "in the result of cast"});
  expect_same(before, job.model.parameters()[0].tensor.value(), "weights");
}

// A step with a bad batch is skipped in each epoch.
TEST(Trainer, AnF16StepThatOverflowsIsLeftOut) {
  F16Training job;
  auto images = fifty_samples().inputs().clone();
  images.select(0, 7).fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(job.train(images, 20), "");
  EXPECT_EQ(job.steps, 100);
  EXPECT_EQ(occurrences(job.out, "Total loss: nan\n"), 20) << job.out;
  EXPECT_EQ(occurrences(job.out, ": loss nan, "), 20) << job.out;
  EXPECT_EQ(job.out.find("-nan"), std::string::npos) << job.out;
  EXPECT_EQ(occurrences(job.said,
                        "note: the total loss is not finite, because the loss of a batch is not; 1 step without finite "
                        "gradients did not change the weights\n"),
            20)
      << job.said;
}

// Only the gradients overflow at the first loss scale. The loss of a skipped step counts in the epoch's loss, and there
// is no message.
TEST(Trainer, AnF16StepIsLeftOutWithAFiniteLoss) {
  F16Training job;
  job.max_steps = 1;
  auto images = fifty_samples().inputs().clone();
  ops::scale_(images, 300);
  const auto before = job.model.parameters()[0].tensor.value().clone();
  EXPECT_EQ(job.train(images, 1), "");
  expect_same(before, job.model.parameters()[0].tensor.value(), "weights");
  const std::string mark = "Total loss: ";
  const auto at = job.out.find(mark);
  ASSERT_NE(at, std::string::npos) << job.out;
  EXPECT_GT(std::stod(job.out.substr(at + mark.size())), 0) << job.out;
  EXPECT_EQ(job.said.find("not finite"), std::string::npos) << job.said;
}

TEST(Trainer, OverfitsTheBatchesThatItIsTold) {
  Options options;
  options.overfit_batches = 2;
  options.epochs = 4;
  auto model = network();
  run_ranks(1, [&](Group group) {
    Trainer trainer(options, group, model);
    auto optimizer = sgd(model);
    trainer.use(optimizer);
    data::Loader loader(fifty_samples(), options.loader_options(*group));
    std::vector<std::vector<std::int64_t>> seen;
    trainer.fit(loader, [&](const data::Batch& batch) {
      seen.push_back(batch.targets.to_vector<std::int64_t>());
      return loss_of(model, batch);
    });
    ASSERT_EQ(seen.size(), 8u);
    for (std::size_t i = 2; i < seen.size(); ++i) EXPECT_EQ(seen[i], seen[i - 2]);
  });
}

// Two hosts may have different files. Without the check, their ranks would train on parts of different data sets.
TEST(Trainer, RanksWithPartsOfDifferentDataSetsDoNotTrain) {
  const testing::Samples some(0, 30);
  const data::ArrayDataset thirty(some.images, some.labels);
  const auto errors = [&](bool has_shards, bool finds_lr) {
    std::vector<std::string> found(2);
    run_ranks(2, [&](Group group) {
      Options options;
      options.samples_name = "images";
      auto model = network();
      Trainer trainer(options, group, model);
      auto optimizer = sgd(model);
      trainer.use(optimizer);
      auto loading = options.loader_options(*group);
      if (!has_shards) loading.shard = {};
      loading.max_batches = 3;
      data::Loader loader(group->rank() ? thirty : fifty_samples(), loading);
      const auto loss = [&](const data::Batch& batch) { return loss_of(model, batch); };
      found[static_cast<std::size_t>(group->rank())] = error_of([&] {
        if (finds_lr) trainer.find_lr(loader, loss, {.steps = 10});
        else trainer.fit(loader, loss);
      });
    });
    return found;
  };
  for (const bool finds_lr : {false, true}) {
    for (const auto& error : errors(true, finds_lr))
      expect_parts(error, {"the ranks do not have the same training images: rank 0 on host ",
                           " has 50; rank 1 on host ", " has 30"});
    // Ranks that visit all of their samples may have different data.
    EXPECT_EQ(errors(false, finds_lr), (std::vector<std::string>{"", ""}));
  }
}

}  // namespace
}  // namespace tandem::distributed
