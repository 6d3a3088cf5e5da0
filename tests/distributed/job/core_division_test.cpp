#include <tandem/distributed/job/core_division.h>

#include <gtest/gtest.h>

#include <vector>

namespace tandem::distributed {
namespace {

using Numbers = std::vector<int>;

TEST(CoreDivision, CountsTheRanksThatShareCores) {
  const RankCores a{"a", 8, 8, false}, b{"b", 2, 2, false}, chosen{"a", 8, 3, true};
  EXPECT_EQ(divided_threads({a}), Numbers{8});
  EXPECT_EQ(divided_threads({a, a}), (Numbers{4, 4}));
  EXPECT_EQ(divided_threads({a, b, a, a}), (Numbers{2, 2, 2, 2}));
  EXPECT_EQ(divided_threads({b, b, b}), (Numbers{1, 1, 1}));
  EXPECT_EQ(divided_threads({a, chosen}), (Numbers{4, 3}));
}

TEST(CoreDivision, SaysWhichThreadsWaitForEachOther) {
  const RankCores a{"a", 4, 4, true}, b{"b", 2, 1, true}, one{"b", 1, 2, true};
  EXPECT_EQ(oversubscription({a}, {4}), "");
  EXPECT_EQ(oversubscription({a, b, a}, {4, 1, 4}), "8 threads on 4 cores wait for each other most of the time");
  EXPECT_EQ(oversubscription({one}, {2}), "2 threads on 1 core wait for each other most of the time");
  // A user may choose to start more ranks than there are cores.
  EXPECT_EQ(oversubscription({b, b, b}, {1, 1, 1}), "");
}

}  // namespace
}  // namespace tandem::distributed
