#include <tandem/distributed/groups/members.h>

#include <gtest/gtest.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>

#include <numeric>
#include <thread>

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

TEST(ExchangeTexts, gives_every_rank_all_texts_as_they_were) {
  const std::vector<std::string> given{"", "two\nlines", "\"a\\b\" 3", std::string("\0 and 4", 7)};
  EXPECT_EQ(split_texts(join_texts(given)), given);
  EXPECT_TRUE(split_texts(join_texts({})).empty());
  TcpStoreServer server({});
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back([&, r] {
      TcpStore store(testing::options_for(server));
      EXPECT_EQ(exchange_texts(store, "text", r, 4, given[r], std::chrono::seconds(10)), given);
    });
  }
  for (auto& rank : ranks) rank.join();
}

// Also the ranks that only wait for rank 0 name the rank that is missing.
TEST(ExchangeTexts, names_the_rank_that_does_not_come) {
  const auto errors_without = [](int missing) {
    TcpStoreServer server({});
    std::vector<std::string> errors;
    for (int r = 2; r >= 0; --r) {
      TcpStore store(testing::options_for(server));
      const auto exchange = [&] { exchange_texts(store, "text", r, 3, "here", std::chrono::milliseconds(100)); };
      if (r != missing) errors.push_back(testing::error_of(exchange));
    }
    return errors;
  };
  testing::expect_parts(errors_without(2)[1], {"rank 0 of 3 waited 0.1 s for rank 2 to join", "MASTER_ADDR"});
  testing::expect_parts(errors_without(1)[1], {"rank 0 of 3 waited 0.1 s for rank 1 to join"});
  testing::expect_parts(errors_without(0)[1], {"rank 1 of 3 waited 0.1 s for rank 0 to join"});
  TcpStoreServer server({});
  TcpStore store(testing::options_for(server));
  store.set("text/0", "here, but it does not publish the texts");
  const auto exchange = [&] { exchange_texts(store, "text", 1, 2, "here", std::chrono::milliseconds(100)); };
  testing::expect_parts(testing::error_of(exchange), {"rank 1 of 2 waited 0.1 s for rank 0 to join"});
}

}  // namespace
}  // namespace tandem::distributed
