#include <tandem/core/random/random.h>
#include <tandem/data/loader.h>
#include <tandem/data/sample_dataset.h>

#include <gtest/gtest.h>
#include <support/few_threads.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using Indices = std::vector<std::int64_t>;

// Sample i is the image i with the label 10 i. Sample `bad` cannot be loaded. Each get() takes a different time.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::int64_t size() const override { return size_; }
  Batch get(std::span<const std::int64_t> indices) const override {
    const auto call = calls++;
    std::this_thread::sleep_for(std::chrono::microseconds(call * 7919 % 500));
    Batch batch{Array::empty({static_cast<std::int64_t>(indices.size()), 1, 1, 1}),
                Array::empty({static_cast<std::int64_t>(indices.size())}, DType::i64)};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      TANDEM_CHECK(indices[i] != bad_, "the disk has a scratch");
      batch.inputs.data<float>()[i] = static_cast<float>(indices[i]);
      batch.targets.data<std::int64_t>()[i] = 10 * indices[i];
    }
    return batch;
  }
  mutable std::atomic<int> calls{0};

 private:
  std::int64_t size_;
  std::int64_t bad_;
};

std::vector<Indices> labels_of_epoch(Loader& loader) {
  std::vector<Indices> epoch;
  for (auto& [images, labels] : loader) {
    epoch.push_back(labels.to_vector<std::int64_t>());
    EXPECT_EQ(images.dim(0), labels.dim(0));
    for (std::int64_t i = 0; i < labels.dim(0); ++i) {
      EXPECT_EQ(images.data<float>()[i] * 10, static_cast<float>(labels.data<std::int64_t>()[i]));
    }
  }
  return epoch;
}

TEST(Loader, CutsTheSamplersOrderIntoBatches) {
  const Numbers numbers(10);
  SequentialSampler sampler(10);
  Loader all(numbers, sampler, {.batch_size = 4});
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(labels_of_epoch(all), (std::vector<Indices>{{0, 10, 20, 30}, {40, 50, 60, 70}, {80, 90}}));
  Loader whole(numbers, sampler, {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(whole.size(), 2);
  EXPECT_EQ(labels_of_epoch(whole), (std::vector<Indices>{{0, 10, 20, 30}, {40, 50, 60, 70}}));
  Loader one(numbers, sampler, {.batch_size = 100});
  EXPECT_EQ(labels_of_epoch(one).size(), 1u);
  Loader none(numbers, sampler, {.batch_size = 11, .drop_last = true});
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(labels_of_epoch(none).empty());
}

TEST(Loader, OrderDoesNotDependOnWorkers) {
  const Numbers numbers(101);
  DistributedSampler sampler(101, {.rank = 0, .world = 2});
  Loader inline_loader(numbers, sampler, {.batch_size = 3});
  for (const int workers : {1, 2, 3, 60}) {
    for (const int prefetch : {1, 2, 5}) {
      Loader loader(numbers, sampler, {.batch_size = 3, .workers = workers, .prefetch = prefetch});
      EXPECT_EQ(loader.size(), 17);
      for (const std::int64_t epoch : {0, 1}) {
        sampler.set_epoch(epoch);
        EXPECT_EQ(labels_of_epoch(loader), labels_of_epoch(inline_loader))
            << workers << " workers, prefetch " << prefetch;
      }
    }
  }
}

TEST(Loader, WithoutASamplerVisitsTheOrderOfADistributedSampler) {
  const Numbers numbers(11);
  for (const bool shuffle : {true, false}) {
    for (const int world : {1, 2, 3}) {
      for (int rank = 0; rank < world; ++rank) {
        DistributedSampler sampler(11, {.rank = rank, .world = world, .shuffle = shuffle, .seed = 7});
        Loader explicit_loader(numbers, sampler, {.batch_size = 4});
        Loader loader(numbers, {.batch_size = 4, .shard = {rank, world}, .shuffle = shuffle, .seed = 7});
        EXPECT_EQ(loader.size(), explicit_loader.size());
        EXPECT_EQ(loader.samples(), explicit_loader.samples());
        for (const std::int64_t epoch : {0, 1, 2}) {
          sampler.set_epoch(epoch);
          const auto expected = labels_of_epoch(explicit_loader);
          EXPECT_EQ(labels_of_epoch(loader.epoch(epoch)), expected) << "rank " << rank << " of " << world;
          EXPECT_EQ(labels_of_epoch(loader.epoch(epoch)), expected) << "the same epoch again";
          EXPECT_EQ(labels_of_epoch(explicit_loader.epoch(epoch)), expected) << "a sampler that was given";
        }
      }
    }
  }
}

// A sample is a number from its default_generator(). Transformed draws another one for it.
class Drawn : public SampleDataset {
 public:
  std::int64_t size() const override { return 12; }
  Sample sample(std::int64_t) const override {
    return {Array::from(std::vector{default_generator().uniform(0.0f, 1.0f)}, {1}), {}};
  }
};
// The same for a data set that makes whole batches.
class DrawnInBatches : public Dataset {
 public:
  std::int64_t size() const override { return 12; }
  Batch get(std::span<const std::int64_t> indices) const override {
    std::vector<float> numbers(indices.size());
    for (float& number : numbers) number = default_generator().uniform(0.0f, 1.0f);
    return {Array::from(numbers, {std::ssize(numbers)}), {}};
  }
};

std::vector<float> inputs_of_epoch(Loader& loader) {
  std::vector<float> numbers;
  for (auto& [inputs, targets] : loader)
    for (const float number : inputs.to_vector<float>()) numbers.push_back(number);
  return numbers;
}

TEST(Loader, RandomNumbersOfSamplesDependOnSeedEpochAndSampleAlone) {
  const Drawn drawn;
  const Transformed transformed(drawn, {[](Sample sample, SampleRandom& random) {
                                  sample.input.fill(random.uniform());
                                  return sample;
                                }});
  const DrawnInBatches in_batches;
  for (const Dataset* dataset : std::initializer_list<const Dataset*>{&drawn, &transformed, &in_batches}) {
    std::vector<std::vector<float>> runs;
    for (const int workers : {0, 1, 3}) {
      manual_seed(5);
      Loader loader(*dataset, {.batch_size = 4, .workers = workers});
      for (int epoch = 0; epoch < 2; ++epoch) runs.push_back(inputs_of_epoch(loader));
    }
    EXPECT_EQ(std::set<float>(runs[0].begin(), runs[0].end()).size(), 12u) << "no two samples alike";
    EXPECT_NE(runs[0], runs[1]) << "nor two epochs";
    for (const std::size_t run : {2u, 3u, 4u, 5u}) EXPECT_EQ(runs[run], runs[run % 2]) << "with any number of workers";
  }
  // A different seed gives different numbers. A different batch size does not.
  manual_seed(5);
  const auto before = default_generator().next_u64();
  manual_seed(5);
  Loader loader(drawn, {.batch_size = 5});
  const auto numbers = inputs_of_epoch(loader);
  manual_seed(5);
  Loader in_fours(drawn, {.batch_size = 4});
  EXPECT_EQ(inputs_of_epoch(in_fours), numbers);
  manual_seed(6);
  EXPECT_NE(inputs_of_epoch(loader.epoch(0)), numbers);
  // The random numbers of the loop's thread are as if no sample had drawn any.
  manual_seed(5);
  inputs_of_epoch(in_fours);
  Generator expected(5);
  EXPECT_EQ(expected.next_u64(), before) << "which begin() draws";
  EXPECT_EQ(default_generator().next_u64(), expected.next_u64());
}

TEST(Loader, EpochsAreNumberedAndShuffledDifferently) {
  const Numbers numbers(50);
  Loader loader(numbers, {.batch_size = 50, .shuffle = true});
  const auto first = labels_of_epoch(loader), second = labels_of_epoch(loader);
  EXPECT_NE(second, first) << "each pass is the next epoch";
  EXPECT_EQ(loader.next_epoch(), 2);
  EXPECT_EQ(labels_of_epoch(loader.epoch(0)), first);
  EXPECT_EQ(labels_of_epoch(loader), second) << "the count goes on from the epoch that was named";
  Loader in_order(numbers, {.batch_size = 50});
  EXPECT_EQ(labels_of_epoch(in_order.epoch(0)), labels_of_epoch(in_order.epoch(1)));
  // A custom sampler without epochs is not changed.
  SequentialSampler sampler(50);
  Loader sequential(numbers, sampler, {.batch_size = 50});
  EXPECT_EQ(labels_of_epoch(sequential.epoch(3)), labels_of_epoch(in_order));
}

TEST(Loader, MovesWithItsSampler) {
  const Numbers numbers(10);
  Loader loader(numbers, {.batch_size = 5, .shuffle = true});
  const auto expected = labels_of_epoch(loader.epoch(1));
  Loader moved = std::move(loader);
  EXPECT_EQ(labels_of_epoch(moved.epoch(1)), expected);
}

// torch.manual_seed(0); DataLoader(range(10), batch_size=4, shuffle=True), two epochs, then
// torch.empty(1).uniform_()
TEST(Loader, WithRandomSamplerEqualsPyTorchsShuffle) {
  const Numbers numbers(10);
  for (const int workers : {0, 2}) {
    RandomSampler sampler(10);
    Loader loader(numbers, sampler, {.batch_size = 4, .workers = workers});
    manual_seed(0);
    EXPECT_EQ(labels_of_epoch(loader), (std::vector<Indices>{{60, 70, 10, 40}, {20, 0, 90, 80}, {30, 50}}));
    EXPECT_EQ(labels_of_epoch(loader), (std::vector<Indices>{{20, 40, 70, 0}, {80, 90, 50, 30}, {60, 10}}));
    EXPECT_EQ(default_generator().uniform(0.0f, 1.0f), 0.455627977848053f);
  }
}

TEST(Loader, WorkersKeepToThePrefetchLimit) {
  const Numbers numbers(100);
  SequentialSampler sampler(100);
  Loader loader(numbers, sampler, {.batch_size = 1, .workers = 2, .prefetch = 3});
  int taken = 0;
  for ([[maybe_unused]] auto& batch : loader) {
    ++taken;
    if (taken == 5) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LE(numbers.calls.load(), taken + 2 * 3);
  }
  EXPECT_EQ(numbers.calls.load(), 100);
}

TEST(Loader, LeavingEarlyEndsTheWorkers) {
  const Numbers numbers(1000);
  SequentialSampler sampler(1000);
  Loader loader(numbers, sampler, {.batch_size = 2, .workers = 3});
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (auto& [images, labels] : loader) {
      EXPECT_EQ(labels.data<std::int64_t>()[1], 10);
      break;
    }
  }
  EXPECT_THROW(
      {
        for ([[maybe_unused]] auto& batch : loader) throw std::logic_error("the consumer's own");
      },
      std::logic_error);
  EXPECT_EQ(labels_of_epoch(loader).size(), 500u);
}

TEST(Loader, ErrorReachesTheConsumerAtItsBatchWithTheSample) {
  const Numbers numbers(40, 17);
  SequentialSampler sampler(40);
  for (const int workers : {0, 1, 3}) {
    Loader loader(numbers, sampler, {.batch_size = 5, .workers = workers});
    int batches = 0;
    EXPECT_ERROR(
        {
          for ([[maybe_unused]] auto& batch : loader) ++batches;
        },
        "sample 17", "batch 3", "the disk has a scratch");
    EXPECT_EQ(batches, 3) << workers << " workers";
  }
}

// Fails only for batches of more than one sample.
class Crowded : public Numbers {
 public:
  using Numbers::Numbers;
  Batch get(std::span<const std::int64_t> indices) const override {
    if (indices.size() > 1) throw std::runtime_error("too many at once");
    return Numbers::get(indices);
  }
};

TEST(Loader, ErrorOfAWholeBatchNamesAllItsSamples) {
  const Crowded crowded(6);
  SequentialSampler sampler(6);
  Loader loader(crowded, sampler, {.batch_size = 3, .workers = 1});
  EXPECT_ERROR(labels_of_epoch(loader), "batch 0", "too many at once", "samples: 0 1 2");
}

// Blocks in get() until it is released.
class Stuck : public Numbers {
 public:
  using Numbers::Numbers;
  ~Stuck() override {
    may_go_on = true;
    while (inside > 0) std::this_thread::yield();
  }
  Batch get(std::span<const std::int64_t> indices) const override {
    if (indices[0] < 4) return Numbers::get(indices);
    ++inside;
    while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Batch batch = Numbers::get(indices);
    --inside;
    return batch;
  }
  mutable std::atomic<bool> may_go_on{false};
  mutable std::atomic<int> inside{0};
};

TEST(Loader, StuckDatasetIsAnErrorAfterTheTimeout) {
  const Stuck stuck(8);
  SequentialSampler sampler(8);
  Loader loader(stuck, sampler, {.batch_size = 2, .workers = 2, .timeout = std::chrono::seconds(1)});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_ERROR(labels_of_epoch(loader), "batch 2 did not arrive within 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// A temporary data set would be destroyed before the loader reads it.
static_assert(std::is_constructible_v<Loader, const Dataset&, LoaderOptions>);
static_assert(!std::is_constructible_v<Loader, Dataset&&, LoaderOptions>);
static_assert(!std::is_constructible_v<Loader, Dataset&&, Sampler&, LoaderOptions>);
static_assert(!std::is_constructible_v<Transformed, SampleDataset&&, std::vector<Transform>>);

// A data set whose stuck batch fails in the end, as if its server were unreachable.
class FailsLate : public Numbers {
 public:
  using Numbers::Numbers;
  Batch get(std::span<const std::int64_t> indices) const override {
    ++calls;
    if (indices[0] == 0) {
      while (!may_go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      may_go_on = false;
      throw Error("the server is away");
    }
    return Numbers::get(indices);
  }
  mutable std::atomic<bool> may_go_on{false};
  mutable std::atomic<int> calls{0};
};

TEST(Loader, AWorkerThatWasLeftBehindDoesNotCallTheDatasetAgain) {
  const FailsLate dataset(4);
  {
    Loader loader(dataset, {.batch_size = 2, .workers = 1, .timeout = std::chrono::seconds(1)});
    EXPECT_ERROR(labels_of_epoch(loader), "batch 0 did not arrive within 1 s");
  }
  ASSERT_EQ(dataset.calls, 1);
  // From here on, the data set could be destroyed after this one call has returned.
  dataset.may_go_on = true;
  while (dataset.may_go_on) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(dataset.calls, 1);
}

TEST(Loader, RejectsNonsense) {
  const Numbers numbers(10);
  SequentialSampler sampler(10);
  EXPECT_ERROR(Loader(numbers, sampler, {.batch_size = 0}), "batch_size must be at least 1, got 0");
  EXPECT_ERROR(Loader(numbers, sampler, {.batch_size = -5}), "got -5");
  EXPECT_ERROR(Loader(numbers, sampler, {.workers = -1}), "workers must be at least 0", "got -1");
  EXPECT_ERROR(Loader(numbers, sampler, {.workers = 1, .prefetch = 0}), "prefetch must be at least 1, got 0");
  EXPECT_ERROR(Loader(numbers, sampler, {.timeout = std::chrono::seconds(0)}), "timeout must be at least 1");
  EXPECT_ERROR(Loader(numbers, {.shard = {.rank = 2, .world = 2}}), "invalid rank 2, expected 0 to 1");
  EXPECT_ERROR(Loader(numbers, {.shard = {.rank = -1, .world = 2}}), "invalid rank -1");
  EXPECT_ERROR(Loader(numbers, {.shard = {.rank = 0, .world = 0}}), "world must be at least 1, got 0");
  EXPECT_ERROR(Loader(numbers, {.batch_size = 0, .shuffle = true}), "batch_size must be at least 1, got 0");
  Loader loader(numbers, {});
  EXPECT_ERROR(loader.epoch(-1), "epochs are counted from 0, got -1");
  EXPECT_ERROR(Loader(numbers, sampler, {.shuffle = true}), "so don't set shard, shuffle or seed");
  EXPECT_ERROR(Loader(numbers, sampler, {.shard = {1, 2}}), "so don't set shard, shuffle or seed");
}

TEST(Loader, EmptyDataset) {
  const Numbers numbers(0);
  SequentialSampler sampler(0);
  for (const int workers : {0, 2}) {
    Loader loader(numbers, sampler, {.batch_size = 3, .workers = workers});
    EXPECT_EQ(loader.size(), 0);
    EXPECT_TRUE(labels_of_epoch(loader).empty());
  }
}

TEST(LoaderDeathTest, SaysThatAThreadCannotStart) {
  const auto load = [] {
    const Numbers numbers(100);
    tandem::testing::allow_threads(2);
    try {
      Loader loader(numbers, {.batch_size = 1, .workers = 8});
      loader.begin();
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
    _exit(0);
  };
  // 2 if the sanitizer has a thread.
  EXPECT_EXIT(load(), ::testing::ExitedWithCode(3), "cannot start thread [23] of 8.*use fewer workers");
}

}  // namespace
}  // namespace tandem::data
