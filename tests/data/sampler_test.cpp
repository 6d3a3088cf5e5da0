// The golden values are those of PyTorch 2.15's samplers.
#include <tandem/core/random/random.h>
#include <tandem/data/sampler.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using Indices = std::vector<std::int64_t>;

// Returns the indices of each rank, and checks that size() is their number.
std::vector<Indices> all_ranks(std::int64_t n, DistributedSamplerOptions options, std::int64_t epoch) {
  std::vector<Indices> ranks;
  for (options.rank = 0; options.rank < options.world; ++options.rank) {
    DistributedSampler sampler(n, options);
    sampler.set_epoch(epoch);
    ranks.push_back(sampler.indices());
    EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(ranks.back().size()));
  }
  return ranks;
}

std::string hash(const std::vector<Indices>& ranks) {
  testing::Sha256 sha;
  for (const auto& rank : ranks) sha.add<std::int64_t>(rank);
  return sha.hex();
}

TEST(DistributedSampler, EqualsPyTorch) {
  EXPECT_EQ(all_ranks(10, {.world = 3}, 0), (std::vector<Indices>{{4, 5, 0, 2}, {1, 3, 8, 4}, {7, 9, 6, 1}}));
  EXPECT_EQ(all_ranks(10, {.world = 3}, 1), (std::vector<Indices>{{5, 2, 9, 4}, {6, 0, 3, 5}, {1, 8, 7, 6}}));
  EXPECT_EQ(all_ranks(10, {.world = 3, .drop_last = true}, 0), (std::vector<Indices>{{4, 5, 0}, {1, 3, 8}, {7, 9, 6}}));
  EXPECT_EQ(all_ranks(10, {.world = 3, .shuffle = false}, 7),
            (std::vector<Indices>{{0, 3, 6, 9}, {1, 4, 7, 0}, {2, 5, 8, 1}}));
  EXPECT_EQ(all_ranks(2, {.world = 8}, 0), (std::vector<Indices>{{0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}}));
}

// The SHA-256 of the concatenated indices of all ranks, as little-endian int64.
TEST(DistributedSampler, EqualsPyTorchOnLongLists) {
  EXPECT_EQ(hash(all_ranks(60000, {.world = 3, .seed = 5}, 2)),
            "2994fdd067a33b2669482f7caac0afb9c69a8383a64d97d83dbbf5ca8ad86422");
  EXPECT_EQ(hash(all_ranks(60000, {.world = 7, .drop_last = true}, 1)),
            "7633fe787b1b1f94c38cc5592bff7106e081605ca37604f1426a0c1a55bf196c");
  EXPECT_EQ(hash(all_ranks(1000, {.world = 3, .shuffle = false, .seed = 1}, 0)),
            "0274f80a9d12b5a2746f951fbb5541cb9da89cae559cd03acfc59f6958836e56");
  EXPECT_EQ(hash(all_ranks(5, {.world = 8}, 0)), "6d7411e39301d1626e9e0f5dc97e58c094015aab988f52131fb4c2607bd32c27");
  EXPECT_EQ(hash(all_ranks(10, {.world = 10, .seed = 3}, 9)),
            "262db7382e990dda82e86111a25470536c47497a6b3141ee2657763be0693180");
  for (const auto& rank : all_ranks(5, {.world = 8, .drop_last = true}, 0)) EXPECT_TRUE(rank.empty());
}

TEST(DistributedSampler, EveryRankGetsEquallyManyAndTogetherAll) {
  for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 100}) {
    for (const int world : {1, 2, 3, 8}) {
      const auto padded = all_ranks(n, {.world = world}, 3);
      const auto cut = all_ranks(n, {.world = world, .drop_last = true}, 3);
      std::vector<int> seen(static_cast<std::size_t>(n));
      for (const auto& rank : padded) {
        EXPECT_EQ(rank.size(), static_cast<std::size_t>((n + world - 1) / world));
        for (const auto index : rank) ++seen[static_cast<std::size_t>(index)];
      }
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times >= 1; })) << n << ' ' << world;
      for (const auto& rank : cut) EXPECT_EQ(rank.size(), static_cast<std::size_t>(n / world));
    }
  }
}

// 4 of 11 samples are done. The other 7 are distributed over the current ranks.
TEST(DistributedSampler, DealsWhatIsLeftOfAnEpochAnew) {
  const auto all = all_ranks(11, {.seed = 5}, 2)[0];
  for (const int world : {1, 2, 3, 8}) {
    for (const bool drop_last : {false, true}) {
      Indices together;
      std::vector<Indices> ranks;
      for (int rank = 0; rank < world; ++rank) {
        DistributedSampler sampler(11, {.rank = rank, .world = world, .seed = 5, .drop_last = drop_last});
        sampler.set_epoch(2);
        ASSERT_TRUE(sampler.leave_out(4));
        ranks.push_back(sampler.indices());
        EXPECT_EQ(ranks.back().size(), static_cast<std::size_t>(drop_last ? 7 / world : (7 + world - 1) / world));
        EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(ranks.back().size()));
        ASSERT_TRUE(sampler.leave_out(0));
        EXPECT_EQ(sampler.indices(), all_ranks(11, {.world = world, .seed = 5, .drop_last = drop_last}, 2)[rank]);
      }
      for (std::size_t i = 0; i < ranks[0].size(); ++i)
        for (const auto& rank : ranks) together.push_back(rank[i]);
      for (std::size_t i = 0; i < together.size(); ++i) EXPECT_EQ(together[i], all[4 + i % 7]) << world << ' ' << i;
    }
  }
  DistributedSampler sampler(11, {.world = 2});
  EXPECT_TRUE(sampler.leave_out(20));
  EXPECT_TRUE(sampler.indices().empty());
  EXPECT_ERROR(sampler.leave_out(-1), "can't leave out -1 samples");
  EXPECT_FALSE(RandomSampler(11).leave_out(4));
  EXPECT_TRUE(RandomSampler(11).leave_out(0));
}

TEST(DistributedSampler, RejectsNonsense) {
  EXPECT_ERROR(DistributedSampler(10, {.rank = 3, .world = 3}), "invalid rank 3", "0 to 2");
  EXPECT_ERROR(DistributedSampler(10, {.rank = -1, .world = 3}), "invalid rank -1");
  EXPECT_ERROR(DistributedSampler(10, {.world = 0}), "world must be at least 1, got 0");
  EXPECT_ERROR(DistributedSampler(-1, {}), "must not be negative, got -1");
}

TEST(ExactSampler, EachSampleIsOnExactlyOneRank) {
  for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 100}) {
    for (const int world : {1, 2, 3, 8}) {
      Indices together;
      for (int rank = 0; rank < world; ++rank) {
        ExactSampler sampler(n, rank, world);
        const auto mine = sampler.indices();
        EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(mine.size()));
        EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
        together.insert(together.end(), mine.begin(), mine.end());
      }
      std::sort(together.begin(), together.end());
      EXPECT_EQ(together, SequentialSampler(n).indices()) << n << ' ' << world;
    }
  }
  EXPECT_EQ(ExactSampler(10, 1, 3).indices(), (Indices{1, 4, 7}));
  EXPECT_ERROR(ExactSampler(10, 2, 2), "ExactSampler: invalid rank 2");
}

TEST(SequentialSampler, CountsUp) {
  SequentialSampler sampler(4);
  EXPECT_EQ(sampler.size(), 4);
  EXPECT_EQ(sampler.indices(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(sampler.indices(), (Indices{0, 1, 2, 3}));
  // Each rank may visit all samples, so it can't leave out samples that all ranks together have visited.
  EXPECT_TRUE(sampler.leave_out(0));
  EXPECT_FALSE(sampler.leave_out(2));
  EXPECT_FALSE(sampler.is_shard());
  EXPECT_TRUE(ExactSampler(4, 0, 2).is_shard());
  EXPECT_FALSE(DistributedSampler(4, {}).is_shard());
}

TEST(RandomSampler, IsAnotherPermutationEachEpochAndFollowsTheSeed) {
  manual_seed(3);
  RandomSampler sampler(100);
  const auto first = sampler.indices();
  const auto second = sampler.indices();
  EXPECT_NE(first, second);
  for (auto epoch : {first, second}) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, SequentialSampler(100).indices());
  }
  manual_seed(3);
  EXPECT_EQ(sampler.indices(), first);
}

}  // namespace
}  // namespace tandem::data
