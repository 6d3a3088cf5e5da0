#include <tandem/distributed/groups/members.h>

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::distributed {
namespace {

TEST(RankList, shortens_runs_and_names_the_number_that_it_leaves_out) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(rank_list({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(rank_list({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(rank_list({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7 and 8");
  EXPECT_EQ(rank_list({3, 1, 2}), "ranks 3, 1 and 2");
  EXPECT_EQ(rank_list({1, 3, 5, 7}, 2), "ranks 1, 3 and 2 more");
  EXPECT_EQ(rank_list({1, 3, 5, 6, 7}, 3), "ranks 1, 3 and 5-7");
  std::vector<int> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(rank_list(all), "ranks 0-999");
}

}  // namespace
}  // namespace tandem::distributed
