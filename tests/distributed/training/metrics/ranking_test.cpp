// Tests Ranking: the evaluations that are kept, and how a checkpoint saves and restores the ranking.
#include <tandem/core/base/check.h>
#include <tandem/distributed/training/metrics/ranking.h>

#include <gtest/gtest.h>
#include <support/process.h>

#include <limits>

namespace tandem::distributed {
namespace {

std::vector<Metric> figure(double value) { return {{"loss", value}}; }

TEST(Ranking, HasTheBestInOrderAndCountsFromTheBest) {
  Ranking ranking("min:loss", 2);
  EXPECT_EQ(ranking.best_step(), -1);
  EXPECT_FALSE(ranking.consider(figure(std::numeric_limits<double>::quiet_NaN()), 1));
  EXPECT_TRUE(ranking.consider(figure(5), 2));
  EXPECT_TRUE(ranking.consider(figure(7), 3));
  EXPECT_EQ(ranking.since(), 1);  // step 3 is kept, but is not better
  EXPECT_TRUE(ranking.consider(figure(4), 4));
  EXPECT_EQ(ranking.since(), 0);
  EXPECT_FALSE(ranking.consider(figure(5), 5));  // of equal ones, the first is kept
  EXPECT_FALSE(ranking.consider(figure(-std::numeric_limits<double>::infinity()), 6));
  EXPECT_EQ(ranking.since(), 2);
  EXPECT_EQ(ranking.best_step(), 4);
  EXPECT_EQ(ranking.kept_steps(), (std::set<std::int64_t>{2, 4}));
}

TEST(Ranking, GoesThroughACheckpointToTheBit) {
  Ranking ranking("max:loss", 3);
  for (const double value : {0.1, 1 / 3.0, -7e300})
    ranking.consider(figure(value), static_cast<std::int64_t>(value > 0));
  Ranking again("max:loss", 3);
  again.go_on("max:loss", ranking.state_text(), ranking.kept_steps());
  EXPECT_EQ(again.state_text(), ranking.state_text());
  again.set_state("0x1p+1 40 2");
  EXPECT_EQ(again.best_step(), 40);
  EXPECT_EQ(again.since(), 2);
  again.set_state("0x0p+0 -1 3");
  EXPECT_TRUE(again.kept_steps().empty());
  for (const char* wrong : {"", "x", "1 2", "1 2 -1", "1 -2 0", "1 2 3 4", "1 2 3 4 -5", "1 2 3x"})
    EXPECT_THROW(again.set_state(wrong), Error) << wrong;
}

TEST(Ranking, KeepsWhatItHasNoPlaceFor) {
  Ranking two("min:loss", 2);
  two.consider(figure(1), 10);
  two.consider(figure(2), 20);
  const auto of = [&](const std::string& wanted, std::int64_t places) {
    Ranking ranking(wanted, places);
    ranking.go_on("min:loss", two.state_text(), two.kept_steps());
    return ranking;
  };
  const std::set<std::int64_t> both = {10, 20}, second = {20}, none;
  EXPECT_EQ(of("min:loss", 2).others(), none);
  EXPECT_EQ(of("min:loss", 1).others(), second);
  EXPECT_EQ(of("max:loss", 2).others(), both);
  const Ranking off = of("", 1);
  EXPECT_EQ(off.others(), both);
  EXPECT_EQ(off.wanted(), "min:loss");
  EXPECT_EQ(off.state_text(), two.state_text());
  for (const auto& ranking : {of("min:loss", 1), of("max:loss", 2), off}) EXPECT_EQ(ranking.kept_steps(), both);
}

TEST(Ranking, AnEvaluationWhoseCheckpointIsLostHasNoPlace) {
  Ranking ranking("min:loss", 2);
  ranking.consider(figure(1), 10);
  ranking.consider(figure(2), 20);
  ranking.consider(figure(3), 30);
  EXPECT_EQ(ranking.since(), 2);
  ranking.lose(20, true);  // the checkpoint may be complete
  EXPECT_EQ(ranking.since(), 2);
  EXPECT_EQ(ranking.others(), std::set<std::int64_t>{20});
  ranking.lose(10, false);
  EXPECT_EQ(ranking.since(), 0);
  EXPECT_EQ(ranking.best_step(), -1);
  EXPECT_EQ(ranking.kept_steps(), std::set<std::int64_t>{20});
  EXPECT_TRUE(ranking.consider(figure(3), 40));
  EXPECT_EQ(ranking.best_step(), 40);
}

}  // namespace
}  // namespace tandem::distributed
