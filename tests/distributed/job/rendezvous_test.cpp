#include <tandem/core/base/check.h>
#include <tandem/distributed/job/rendezvous.h>
#include <tandem/distributed/store/file_store.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/network_interface.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::expect_parts;

int free_port() { return TcpStoreServer({}).port(); }

Environment environment_at(int port, int rank, int size) {
  Environment environment;
  environment.launcher = "torchrun";
  environment.rank = rank;
  environment.world_size = size;
  environment.knows_host = false;
  environment.master_addr = "127.0.0.1";
  environment.master_port = port;
  environment.run_id = "run";
  return environment;
}

// Connects with each environment on a separate thread. Returns the error of each, or "".
std::vector<std::string> meet(std::vector<Environment> ranks, Store::Timeout timeout,
                              const std::function<void(const Environment&, Store&)>& then) {
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const auto store = connect_store(ranks[i], timeout);
        then(ranks[i], *store);
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

TEST(ConnectStore, RankZeroServesWhenNoLauncherDoes) {
  const int port = free_port();
  auto one = environment_at(port, 0, 2), other = environment_at(port, 1, 2);
  one.store_token = other.store_token = "secret";
  const auto errors = meet({one, other}, 10s, [](const Environment& environment, Store& store) {
    store.set("from " + std::to_string(environment.rank), "hello");
    EXPECT_EQ(store.get("from " + std::to_string(1 - environment.rank)), "hello");
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, TheRankThatServesLeavesLast) {
  const int port = free_port();
  const auto errors = meet({environment_at(port, 0, 3), environment_at(port, 1, 3), environment_at(port, 2, 3)}, 10s,
                           [](const Environment& environment, Store& store) {
                             if (environment.rank == 0) return store.set("the last word", "of rank 0");
                             std::this_thread::sleep_for(environment.rank * 300ms);
                             EXPECT_EQ(store.get("the last word"), "of rank 0");
                           });
  EXPECT_EQ(errors, (std::vector<std::string>{"", "", ""}));
}

// This also holds without tandemrun.
TEST(ConnectStore, NobodyElseJoinsTheStoreOfRankZero) {
  const int port = free_port();
  const auto errors =
      meet({environment_at(port, 0, 2), environment_at(port, 1, 2)}, 10s, [&](const Environment& environment, Store&) {
        if (environment.rank != 1) return;
        expect_parts(testing::error_of([&] { TcpStore({"127.0.0.1", port, 300ms}); }), {"expects a token"});
        expect_parts(testing::error_of([&] { TcpStore({"127.0.0.1", port, 300ms, "guessed"}); }), {"another job"});
      });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, OfSeveralHostsNeedsATokenOrLeaveToDoWithout) {
  auto one = environment_at(free_port(), 0, 2), other = environment_at(one.master_port, 1, 2);
  one.master_addr = other.master_addr = reachable_address("");
  if (is_loopback(one.master_addr)) one.master_addr = other.master_addr = "0.0.0.0";  // not recognised as this host's
  for (const auto& error : meet({one, other}, 10s, [](const Environment&, Store&) {}))
    expect_parts(error, {"TANDEM_STORE_TOKEN", "TANDEM_STORE_TOKEN_FILE", "--open-store"});
  one.open_store = other.open_store = true;
  EXPECT_EQ(meet({one, other}, 10s, [](const Environment&, Store&) {}), (std::vector<std::string>{"", ""}));
  one.open_store = other.open_store = false;
  one.store_token = other.store_token = "secret";
  EXPECT_EQ(meet({one, other}, 10s, [](const Environment&, Store&) {}), (std::vector<std::string>{"", ""}));
}

// A store like torchrun's can't prove the token, and a message says so. If the store should be tandemrun's, it is an
// error.
TEST(ConnectStore, SaysWhereTheLaunchersStoreKnowsNoToken) {
  TcpStoreServer server({});
  auto one = environment_at(server.port(), 0, 2), other = environment_at(server.port(), 1, 2);
  one.uses_agent_store = other.uses_agent_store = true;
  one.store_token = other.store_token = "secret";
  ::testing::internal::CaptureStderr();
  const auto errors = meet({one, other}, 10s, [](const Environment&, Store&) {});
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  expect_parts(said, {"does not support the token"});
  EXPECT_EQ(said.find("token"), said.rfind("token"));  // once, not once for each rank
  one.store_proves = other.store_proves = true;
  for (const auto& error : meet({one, other}, 300ms, [](const Environment&, Store&) {}))
    expect_parts(error, {"does not prove that it knows the job's token"});
}

TEST(ConnectStore, NeighboursAreFoundWhereTheLauncherDoesNotNameThem) {
  const int port = free_port();
  const auto errors = meet({environment_at(port, 0, 3), environment_at(port, 1, 3), environment_at(port, 2, 3)}, 10s,
                           [](const Environment& environment, Store&) {
                             EXPECT_TRUE(environment.knows_host);
                             EXPECT_EQ(environment.local_rank, environment.rank);
                             EXPECT_EQ(environment.local_world_size, 3);
                             EXPECT_EQ(environment.node_rank, 0);
                             EXPECT_EQ(environment.node_count, 1);
                           });
  EXPECT_EQ(errors, (std::vector<std::string>{"", "", ""}));
}

TEST(ConnectStore, WhatTheLauncherSaysStays) {
  TcpStoreServer server({});
  auto one = environment_at(server.port(), 0, 2), other = environment_at(server.port(), 1, 2);
  one.uses_agent_store = other.uses_agent_store = true;
  one.knows_host = other.knows_host = true;
  other.node_rank = 1;
  const auto errors = meet({one, other}, 10s, [](const Environment& environment, Store&) {
    EXPECT_EQ(environment.local_world_size, 1);
    EXPECT_EQ(environment.node_rank, environment.rank);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

// Attempts of one job use the same launcher's store. Each host counts its own restarts.
TEST(ConnectStore, KeysOfAnotherAttemptAreNotSeen) {
  TcpStoreServer server({});
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto one = environment_at(server.port(), 0, 2), other = environment_at(server.port(), 1, 2);
    one.uses_agent_store = other.uses_agent_store = true;
    one.restart_count = attempt;
    const auto errors = meet({one, other}, 10s, [](const Environment& environment, Store& store) {
      const auto key = "key" + std::to_string(environment.rank);
      EXPECT_FALSE(store.check({key}));
      store.set(key, "");
    });
    EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  }
}

TEST(ConnectStore, ARankThatDiedWhileMeetingLeavesNoTrace) {
  TcpStoreServer server({});
  auto one = environment_at(server.port(), 0, 2), other = environment_at(server.port(), 1, 2);
  one.uses_agent_store = other.uses_agent_store = true;
  EXPECT_THROW(connect_store(other, 50ms), Error);
  EXPECT_THROW(connect_store(one, 50ms), Error);
  auto larger = environment_at(server.port(), 1, 3);
  larger.uses_agent_store = true;
  EXPECT_THROW(connect_store(larger, 50ms), Error);
  EXPECT_EQ(meet({one, other}, 10s, [](const Environment&, Store&) {}), (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, MissingRanksAreNamed) {
  const int port = free_port();
  const auto errors = meet({environment_at(port, 0, 4), environment_at(port, 2, 4)}, 500ms,
                           [](const Environment&, Store&) { ADD_FAILURE() << "two ranks are missing"; });
  expect_parts(errors[0], {"ranks 1 and 3 of 4 have not arrived within 0.5 s"});
  EXPECT_FALSE(errors[1].empty());
  auto lonely = environment_at(port, 0, 2);
  EXPECT_THROW(connect_store(lonely, 50ms), Error);
}

TEST(ConnectStore, TwoProcessesOfOneRankAreAnError) {
  const int port = free_port();
  const auto errors = meet({environment_at(port, 0, 3), environment_at(port, 1, 3), environment_at(port, 1, 3)}, 1s,
                           [](const Environment&, Store&) {});
  const auto& said = errors[1].find("two processes") != std::string::npos ? errors[1] : errors[2];
  expect_parts(said, {"two processes claim to be rank 1"});
  expect_parts(errors[0], {"rank 2 of 3 has not arrived"});
}

TEST(ConnectStore, ASecondProcessOfARankThatComesLateIsToldThatAllHaveMet) {
  const int port = free_port();
  const auto errors = meet(
      {environment_at(port, 0, 2), environment_at(port, 1, 2)}, 10s, [&](const Environment& environment, Store& store) {
        if (environment.rank == 0) {
          store.get("late");
        } else {
          auto late = environment_at(port, 1, 2);
          EXPECT_ERROR(connect_store(late, 500ms), "rank 1", "all 2 processes", "have already met", "same RANK");
          store.set("late", "");
        }
      });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, AnotherWorldSizeIsAnErrorAtOnce) {
  const int port = free_port();
  const auto start = steady_clock::now();
  std::vector<Environment> ranks = {environment_at(port, 0, 2), environment_at(port, 1, 3)};
  const auto errors = meet(ranks, 1s, [](const Environment&, Store&) {});
  expect_parts(errors[1], {"3 processes (WORLD_SIZE), and rank 0 that it has 2"});
  EXPECT_LT(steady_clock::now() - start, 5s);
}

// A rank beyond the job's size gets an error, and rank 0 reports which process it turned away.
TEST(ConnectStore, ARankBeyondTheJobsSizeIsAnErrorAtOnce) {
  const int port = free_port();
  steady_clock::duration taken{};
  std::vector<Environment> ranks = {environment_at(port, 0, 2), environment_at(port, 2, 3)};
  std::vector<std::string> errors(2);
  const auto start = steady_clock::now();
  std::thread rank_2([&] {
    errors[1] = testing::error_of([&] { connect_store(ranks[1], 60s); });
    taken = steady_clock::now() - start;
  });
  errors[0] = testing::error_of([&] { connect_store(ranks[0], 3s); });
  rank_2.join();
  expect_parts(errors[1], {"3 processes (WORLD_SIZE), and rank 0 that it has 2"});
  EXPECT_LT(taken, 30s);
  expect_parts(errors[0], {"rank 1 of 2 has not arrived within 3 s at 127.0.0.1:" + std::to_string(port), "WORLD_SIZE",
                           "A rank 2 arrived that was told that the job has 3 processes"});
}

TEST(ConnectStore, SaysWhatToLookAtWhereNobodyServes) {
  auto rank = environment_at(free_port(), 1, 2);
  expect_parts(testing::error_of([&] { connect_store(rank, 200ms); }),
               {"cannot connect to 127.0.0.1:" + std::to_string(rank.master_port), "tried for 0.",
                "Connection refused: the host answers, but no program listens", "rank 0 serves the store",
                "whether rank 0 has started", "MASTER_ADDR, MASTER_PORT, --init-method", "firewall"});
  rank.uses_agent_store = true;
  expect_parts(testing::error_of([&] { connect_store(rank, 200ms); }),
               {"cannot connect", "the launcher serves the store", "whether it is still running", "firewall"});
  TcpStoreServer server({});
  rank.master_port = server.port();
  expect_parts(testing::error_of([&] { connect_store(rank, 200ms); }),
               {"rank 1: rank 0 has not arrived at 127.0.0.1:" + std::to_string(server.port()), "WORLD_SIZE",
                "TORCHELASTIC_RUN_ID", "--init-method"});
}

// A program has started processes at a different address, and they still have its launcher's variables.
TEST(ConnectStore, ALaunchersStoreIsAtItsOwnAddressOnly) {
  const int port = free_port();
  auto one = environment_at(port, 0, 2), other = environment_at(port, 1, 2);
  one.uses_agent_store = other.uses_agent_store = true;
  EXPECT_EQ(meet({one, other}, 10s, [](const Environment&, Store&) {}), (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, RanksMeetInAFileOrAFolder) {
  const testing::TemporaryFolder folder;
  for (const auto& path : {folder / "file", folder.path()}) {
    std::vector<Environment> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(environment_at(0, rank, 3));
      ranks.back().store_path = path.string();
    }
    for (int job = 0; job < 2; ++job) {
      const auto errors = meet(ranks, 10s, [](const Environment& environment, Store& store) {
        EXPECT_FALSE(store.check({"key" + std::to_string(environment.rank)}));
        store.set("key" + std::to_string(environment.rank), "");
        store.wait({"key0", "key1", "key2"});
      });
      EXPECT_EQ(errors, (std::vector<std::string>{"", "", ""}));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // rank 0 removes the file
}

TEST(ConnectStore, AFileThatACrashedJobLeftIsNoHindrance) {
  const testing::TemporaryFolder folder;
  const auto path = (folder / "file").string();
  {
    FileStore crashed({path, 1s});
    crashed.set("tandem/run/meetings", "1");
    crashed.set("tandem/run/guests", "0123:1:2 ");
    crashed.set("tandem/run/meeting/1/claims/0", "1");
    crashed.set("tandem/run/meeting/1/claims/1", "1");
    crashed.set("tandem/run/meeting/1/host/1", "host");
    crashed.set("tandem/run/meeting/1/keys/key", "stale");
  }
  std::vector<Environment> ranks = {environment_at(0, 0, 2), environment_at(0, 1, 2)};
  for (auto& rank : ranks) rank.store_path = path;
  const auto errors = meet(ranks, 10s, [](const Environment&, Store& store) { EXPECT_FALSE(store.check({"key"})); });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(ConnectStore, NeedsAnAddress) {
  Environment environment;
  EXPECT_THROW(connect_store(environment, 10s), Error);
}

}  // namespace
}  // namespace tandem::distributed
