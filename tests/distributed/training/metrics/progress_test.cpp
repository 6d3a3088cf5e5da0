#include <tandem/core/ops.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/training/metrics/progress.h>

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::distributed {
namespace {

struct Numbers {
  data::ArrayDataset samples;
  explicit Numbers(std::int64_t n) : samples(ops::zeros({n, 1}), ops::zeros({n}, DType::i64)) {}
  data::Loader loader(std::int64_t batch_size, data::Shard shard = {}, bool drop_last = false) const {
    return {samples, {.batch_size = batch_size, .drop_last = drop_last, .shard = shard}};
  }
};

// 10 samples are batches of 4, 4 and 2. With two batches per step, the steps have 8 samples and 2.
TEST(Progress, WeighsBatchesByTheirSamples) {
  const Numbers numbers(10);
  auto loader = numbers.loader(4);
  Progress progress(loader, {.batch_size = 4, .accumulate = 2}, 3);
  std::vector<double> weights;
  std::vector<std::int64_t> steps;
  std::vector<bool> begins, completes;
  while (!progress.epoch_is_complete()) {
    weights.push_back(progress.weight());
    begins.push_back(progress.begins_step());
    completes.push_back(progress.completes_step());
    progress.count();
    steps.push_back(progress.position().step);
  }
  EXPECT_EQ(weights, (std::vector<double>{0.5, 0.5, 1}));
  EXPECT_EQ(begins, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(completes, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(progress.samples_since(0), 10);
  EXPECT_EQ(progress.samples_since(1), 6);
  progress.end_epoch();
  EXPECT_EQ(progress.position().epoch, 1);
  EXPECT_EQ(progress.position().batch, 0);
  EXPECT_EQ(progress.position().step, 2);
}

TEST(Progress, AShortBatchCountsForItsPartOfAStep) {
  const Numbers numbers(9);
  auto loader = numbers.loader(4);
  Progress progress(loader, {.batch_size = 4, .accumulate = 3}, 1);
  std::vector<double> weights;
  for (; !progress.epoch_is_complete(); progress.count()) weights.push_back(progress.weight());
  EXPECT_EQ(weights, (std::vector<double>{4.0 / 9, 4.0 / 9, 1.0 / 9}));
}

TEST(Progress, SchedulesFollowThePartOfTheTrainingThatIsDone) {
  const Numbers numbers(100);
  auto loader = numbers.loader(10);
  Progress progress(loader, {.batch_size = 10}, 4);
  EXPECT_EQ(progress.planned_steps(), 40);
  for (int step = 0; step < 15; ++step) {
    EXPECT_EQ(progress.schedule_step(), step);
    progress.count();
    if (progress.epoch_is_complete()) progress.end_epoch();
  }
  EXPECT_EQ(progress.schedule_step(), 15);

  // Two ranks have 25 samples each, in 2 steps an epoch. Half of the second epoch is done.
  auto of_two = numbers.loader(25, {.rank = 1, .world = 2});
  Progress other(of_two, {.world_size = 2, .batch_size = 25}, 4);
  other.go_on(progress.position(), progress.division());
  EXPECT_EQ(other.position().before, 50);
  EXPECT_EQ(other.position().batch, 0);
  EXPECT_EQ(other.position().step, 15);
  EXPECT_EQ(other.planned_steps(), 8);
  EXPECT_EQ(other.schedule_step(), 3);
  EXPECT_EQ(other.batches(), 1);
  other.count();
  EXPECT_EQ(other.schedule_step(), 4);
  EXPECT_TRUE(other.epoch_is_complete());
  other.end_epoch();
  EXPECT_EQ(other.schedule_step(), 4);
  EXPECT_EQ(other.batches(), 2);

  // With the same division, resuming continues at the next batch.
  auto same = numbers.loader(10);
  Progress as_before(same, progress.division(), 4);
  as_before.go_on(progress.position(), progress.division());
  EXPECT_EQ(as_before.position().batch, 5);
  EXPECT_EQ(as_before.position().before, 0);
}

// A third run in the same epoch skips the samples of both earlier runs.
TEST(Progress, AddsUpWhatSeveralDivisionsHaveDoneOfAnEpoch) {
  const Numbers numbers(100);
  auto first = numbers.loader(5), second = numbers.loader(5);
  Progress two(first, {.world_size = 2, .batch_size = 5}, 1);
  two.go_on({.epoch = 0, .step = 3, .batch = 3, .before = 0}, {.world_size = 3, .batch_size = 10});
  EXPECT_EQ(two.position().before, 90);
  EXPECT_EQ(first.samples(), 10);
  Progress one(second, {.batch_size = 5}, 1);
  one.go_on({.epoch = 0, .step = 4, .batch = 1, .before = 90}, {.world_size = 2, .batch_size = 5});
  EXPECT_EQ(one.position().before, 100);
  EXPECT_TRUE(one.epoch_is_complete());
}

// 21 samples are left, 7 for each of three ranks. They are batches of 3 and 4, because batch norm refuses a batch of 1.
TEST(Progress, ARestThatIsDealtAnewHasNoBatchOfOneSample) {
  const Numbers numbers(100);
  auto loader = numbers.loader(3, {.rank = 2, .world = 3});
  Progress progress(loader, {.world_size = 3, .batch_size = 3}, 2);
  progress.go_on({.epoch = 0, .step = 79, .batch = 79, .before = 0}, {.batch_size = 1});
  EXPECT_EQ(progress.position().before, 79);
  EXPECT_EQ(progress.batches(), 2);
  EXPECT_EQ(loader.samples(), 7);
  std::vector<std::int64_t> sizes;
  for (auto& batch : loader.epoch(0)) {
    sizes.push_back(batch.inputs.dim(0));
    progress.count();
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(progress.samples_since(0), 21);
  EXPECT_EQ(progress.samples_since(1), 12);
  // A job that stops after the first of these batches continues with the second.
  loader.skip(1);
  std::vector<std::int64_t> after;
  for (auto& batch : loader.epoch(0)) after.push_back(batch.inputs.dim(0));
  EXPECT_EQ(after, (std::vector<std::int64_t>{4}));
  // The next epoch follows its options: it has 34 samples, the last of them in a separate batch.
  progress.end_epoch();
  EXPECT_EQ(progress.batches(), 12);
  EXPECT_EQ(loader.samples(), 34);
}

TEST(Progress, AStepWeighsABatchThatHasOneMore) {
  const Numbers numbers(10);
  auto loader = numbers.loader(2);
  Progress progress(loader, {.batch_size = 2, .accumulate = 2}, 1);
  progress.go_on({.epoch = 0, .step = 5, .batch = 5, .before = 0}, {.batch_size = 1});
  std::vector<double> weights;
  for (; !progress.epoch_is_complete(); progress.count()) weights.push_back(progress.weight());
  EXPECT_EQ(weights, (std::vector<double>{0.4, 0.6}));
}

// With batch norm, one sample per rank is not enough for a batch, so the epoch is over.
TEST(Progress, ARestOfOneSampleForEachRankEndsTheEpoch) {
  const Numbers numbers(100);
  auto loader = numbers.loader(3, {.rank = 0, .world = 3});
  Progress progress(loader, {.world_size = 3, .batch_size = 3}, 2);
  progress.go_on({.epoch = 0, .step = 98, .batch = 98, .before = 0}, {.batch_size = 1});
  EXPECT_EQ(progress.position().before, 100);
  EXPECT_TRUE(progress.epoch_is_complete());
  auto ones = numbers.loader(1, {.rank = 0, .world = 2});
  Progress of_ones(ones, {.world_size = 2, .batch_size = 1}, 2);
  of_ones.go_on({.epoch = 0, .step = 98, .batch = 98, .before = 0}, {.batch_size = 1});
  EXPECT_EQ(of_ones.batches(), 1);  // the user has chosen batches of 1
}

TEST(Progress, SaysWhichSamplerCannotGoOn) {
  const Numbers numbers(10);
  data::RandomSampler sampler(10);
  data::Loader loader(numbers.samples, sampler, {.batch_size = 2});
  Progress progress(loader, {.batch_size = 2}, 1);
  const Position position{.epoch = 0, .step = 2, .batch = 2};
  progress.go_on(position, {.batch_size = 2});
  EXPECT_EQ(progress.position().batch, 2);
  try {
    progress.go_on(position, {.batch_size = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("this sampler can't leave out the first 2 samples of an epoch"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tandem::distributed
