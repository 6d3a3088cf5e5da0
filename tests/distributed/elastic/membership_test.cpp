#include <tandem/core/base/check.h>
#include <tandem/distributed/elastic/membership.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

// Each process has its own connection, whose end is the end of the process.
class MembershipTest : public ::testing::Test {
 protected:
  std::unique_ptr<Membership> start(int rank, int size = 3, int min_ranks = 1) {
    auto store = std::make_shared<TcpStore>(TcpStore::Options{.port = server_.port()});
    return std::make_unique<Membership>(
        store, Membership::Options{.rank = rank, .size = size, .timeout = milliseconds(800), .min_ranks = min_ranks});
  }
  // Calls join() of all these processes at the same time, each with its number of steps. Returns the errors.
  static std::vector<std::string> join(const std::vector<std::pair<Membership*, int>>& processes) {
    std::vector<std::future<std::string>> running;
    for (const auto& [process, steps] : processes)
      running.push_back(std::async(std::launch::async, [process = process, steps = steps]() -> std::string {
        try {
          return process->join(steps) ? "" : "over";
        } catch (const Error& error) {
          return error.what();
        }
      }));
    std::vector<std::string> results;
    for (auto& one : running) results.push_back(one.get());
    return results;
  }
  using Texts = std::vector<std::string>;

  TcpStoreServer server_{TcpStoreServer::Options{}};
};

TEST_F(MembershipTest, ranks_are_the_launchers_first_and_then_those_with_the_most_steps) {
  auto a = start(0), b = start(1), c = start(2);
  EXPECT_EQ(join({{c.get(), -1}, {a.get(), -1}, {b.get(), -1}}), Texts(3));
  EXPECT_EQ(a->rank(), 0);
  EXPECT_EQ(b->rank(), 1);
  EXPECT_EQ(c->rank(), 2);
  EXPECT_EQ(c->size(), 3);
  EXPECT_FALSE(a->has_changed());

  c->change();
  EXPECT_TRUE(testing::eventually([&] { return a->has_changed(); }));  // the store need not have heard of it yet
  EXPECT_EQ(join({{a.get(), 6}, {b.get(), 7}, {c.get(), 7}}), Texts(3));
  EXPECT_EQ(b->rank(), 0);
  EXPECT_EQ(c->rank(), 1);
  EXPECT_EQ(a->rank(), 2);
  EXPECT_EQ(a->generation(), 2);
  EXPECT_EQ(a->difference(), "gone: none; new: none");
}

TEST_F(MembershipTest, the_end_of_a_process_ends_the_generation_and_a_newcomer_comes_last) {
  auto a = start(0), b = start(1), c = start(2);
  join({{a.get(), -1}, {b.get(), -1}, {c.get(), -1}});
  a->begin();
  a.reset();
  ASSERT_TRUE([&] {
    for (int i = 0; i < 1000 && !b->has_changed(); ++i) std::this_thread::sleep_for(milliseconds(5));
    return b->has_changed();
  }());
  auto newcomer = start(0);
  auto joining = std::async(std::launch::async, [&] { return newcomer->join(-1); });
  std::this_thread::sleep_for(milliseconds(100));  // it must not decide without the members
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(join({{c.get(), 5}, {b.get(), 5}}), Texts(2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(400));  // they did not wait for the one that is gone
  EXPECT_TRUE(joining.get());
  EXPECT_EQ(b->rank(), 0);
  EXPECT_EQ(c->rank(), 1);
  EXPECT_EQ(newcomer->rank(), 2);
  EXPECT_NE(b->difference().find("gone: 0-"), std::string::npos) << b->difference();
}

TEST_F(MembershipTest, a_late_process_is_left_out_and_told) {
  auto a = start(0), b = start(1), c = start(2);
  join({{a.get(), -1}, {b.get(), -1}, {c.get(), -1}});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(join({{a.get(), 5}, {b.get(), 5}}), Texts(2));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(400));
  EXPECT_EQ(a->size(), 2);
  testing::expect_parts(join({{c.get(), 5}})[0], {"generation 2 of the training began without this process (2-",
                                                  "did not arrive within 0.4 s", "--max-restarts"});
  EXPECT_FALSE(a->has_changed());
}

TEST_F(MembershipTest, too_few_processes_are_an_error) {
  auto a = start(0, 2, 2), b = start(1, 2, 2);
  join({{a.get(), -1}, {b.get(), -1}});
  b.reset();
  testing::expect_parts(join({{a.get(), 1}})[0], {"needs at least 2 processes (min_ranks), and has 1"});
}

TEST_F(MembershipTest, newcomers_without_weights_dont_begin_again) {
  auto a = start(0, 1);
  join({{a.get(), -1}});
  auto early = start(0, 1);
  a.reset();
  EXPECT_EQ(join({{early.get(), -1}}), Texts(1));  // there are no steps to lose
  early->begin();
  early.reset();
  auto late = start(0, 1);
  testing::expect_parts(join({{late.get(), -1}})[0], {"all processes that had the weights are gone"});
}

TEST_F(MembershipTest, the_end_counts_when_all_have_finished) {
  auto a = start(0, 2), b = start(1, 2);
  join({{a.get(), -1}, {b.get(), -1}});
  EXPECT_THROW(a->finish(), PeerError);  // b is late
  EXPECT_EQ(join({{a.get(), 4}, {b.get(), 4}}), Texts(2));
  auto other = std::async(std::launch::async, [&] { a->finish(); });
  b->finish();
  other.get();
  a->change();
  EXPECT_EQ(join({{b.get(), 4}}), Texts{"over"});
  auto late = start(0, 2);
  EXPECT_EQ(join({{late.get(), -1}}), Texts{"over"});
}

}  // namespace
}  // namespace tandem::distributed
