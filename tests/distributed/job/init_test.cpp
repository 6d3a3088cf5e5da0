// Tests the ways in which ranks find each other. Each rank is a process of this program that runs only one test.
#include <tandem/core/base/check.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/job/launcher_kind.h>
#include <tandem/distributed/job/rendezvous.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/store/store.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/annexes.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using testing::expect_parts;
using testing::Outcome;
using testing::run_process;
using testing::TemporaryFolder;
using Variables = std::map<std::string, std::string>;

// Unsets all variables that launchers set, because the tests themselves may run under a launcher.
const Variables no_launcher = {{"RANK", ""},
                               {"WORLD_SIZE", ""},
                               {"LOCAL_RANK", ""},
                               {"MASTER_ADDR", ""},
                               {"MASTER_PORT", ""},
                               {"LOCAL_WORLD_SIZE", ""},
                               {"GROUP_RANK", ""},
                               {"TORCHELASTIC_RUN_ID", ""},
                               {"TANDEM_STORE_TOKEN", ""},
                               {"PMI_RANK", ""},
                               {"OMPI_COMM_WORLD_RANK", ""},
                               {"SLURM_STEP_NUM_TASKS", ""},
                               {"OMP_NUM_THREADS", "1"}};

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> as_rank(const std::string& role = "sums_with_the_others") {
  return {this_program(), "--gtest_also_run_disabled_tests", "--gtest_filter=RankOfInitTest.DISABLED_" + role};
}

// This is not a test itself, but a rank, which fails if its sum with the other ranks is wrong. With TEST_FAIL_FIRST, it
// also fails in its first attempt.
TEST(RankOfInitTest, DISABLED_sums_with_the_others) {
  const char* method = std::getenv("TEST_INIT_METHOD");
  InitOptions options;
  const char* backend = std::getenv("TEST_BACKEND");
  if (method) options.init_method = method;
  if (backend) options.backend = value_named<GroupBackend>(backend);
  options.timeout = std::chrono::seconds(30);
  const auto environment = environment_for(options.init_method);
  const auto group = init(options);
  if (std::getenv("TEST_FAIL_FIRST") && environment.restart_count == 0) std::_Exit(3);
  Array sum = Array::from(std::vector<float>{static_cast<float>(group->rank() + 1)}, {1});
  group->all_reduce(sum)->wait();
  ASSERT_EQ(sum.item(), group->size() * (group->size() + 1) / 2);
  std::cout << "rank " << group->rank() << " of " << group->size() << " done\n";
}

// This is not a test itself either.
TEST(RankOfInitTest, DISABLED_dies_while_the_others_wait_for_it) {
  InitOptions options;
  options.init_method = std::getenv("TEST_INIT_METHOD");
  options.backend = value_named<GroupBackend>(std::getenv("TEST_BACKEND"));
  const auto group = init(options);
  group->barrier()->wait();
  run_together(*group, [&] {
    if (group->rank() == 1) raise(SIGKILL);
  });
}

// Runs one process per entry, all at once.
std::vector<Outcome> run_ranks(const std::vector<Variables>& ranks,
                               const std::vector<std::string>& command = as_rank()) {
  std::vector<Outcome> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto variables = ranks[rank];
      variables.insert(no_launcher.begin(), no_launcher.end());
      outcomes[rank] = run_process(command, variables);
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

void expect_done(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].code, 0) << outcomes[rank].out << outcomes[rank].err;
    const auto line = "rank " + std::to_string(rank) + " of " + std::to_string(outcomes.size()) + " done";
    EXPECT_NE(outcomes[rank].out.find(line), std::string::npos) << outcomes[rank].out;
  }
}

std::vector<Variables> by_hand(int size, const std::string& method) {
  std::vector<Variables> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(
        {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}, {"TEST_INIT_METHOD", method}});
  }
  return ranks;
}

std::string free_port() { return std::to_string(TcpStoreServer({}).port()); }

TEST(Init, InAFile) {
  SKIP_WITHOUT_ANNEX(stores_at_paths);
  const TemporaryFolder folder;
  expect_done(run_ranks(by_hand(3, "file://" + (folder / "store").string())));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Init, AtAnAddress) { expect_done(run_ranks(by_hand(2, "tcp://127.0.0.1:" + free_port()))); }

TEST(Init, ByTheFourVariables) {
  auto ranks = by_hand(2, "env://");
  const auto port = free_port();
  for (auto& rank : ranks) {
    rank["MASTER_ADDR"] = "127.0.0.1";
    rank["MASTER_PORT"] = port;
  }
  expect_done(run_ranks(ranks));
}

TEST(Init, ByMpisVariables) {
  SKIP_WITHOUT_ANNEX(launcher_kinds);
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back({{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "tandem-test-" + std::to_string(getpid())}});
  }
  expect_done(run_ranks(ranks));
}

TEST(Init, BySlurmsVariables) {
  SKIP_WITHOUT_ANNEX(launcher_kinds);
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back({{"SLURM_JOB_ID", std::to_string(getpid())},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2"},
                     {"SLURM_STEP_NODELIST", "node[01-02]"},
                     {"SLURM_NODEID", "0"},
                     {"SLURM_PROCID", std::to_string(rank)},
                     {"SLURM_LOCALID", std::to_string(rank)}});
  }
  expect_done(run_ranks(ranks));
}

// There is no launcher and no running operation, so only the store can notice the death.
TEST(Init, ADeadRankEndsTheWaitForIt) {
  for (const auto* backend : {"shm", "gloo"}) {
    auto ranks = by_hand(3, "tcp://127.0.0.1:" + free_port());
    for (auto& rank : ranks) rank["TEST_BACKEND"] = backend;
    const auto outcomes = run_ranks(ranks, as_rank("dies_while_the_others_wait_for_it"));
    EXPECT_EQ(outcomes[1].code, 128 + SIGKILL);
    for (const int rank : {0, 2}) {
      EXPECT_EQ(outcomes[rank].code, 1);
      EXPECT_LT(outcomes[rank].seconds, 20);
      expect_parts(outcomes[rank].out, {"rank 1 (", ") has left"});
    }
  }
}

TEST(Init, WithoutRoomForSharedMemoryOnOneRankAllUseTcp) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "NOT RUN: sanitizers need more address space than this test leaves";
#endif
  auto command = as_rank();
  command.insert(command.begin(), {"sh", "-c", "test $RANK = 0 || ulimit -v 1500000; exec \"$@\"", "sh"});
  auto ranks = by_hand(2, "tcp://127.0.0.1:" + free_port());
  const auto outcomes = run_ranks(ranks, command);
  expect_done(outcomes);
  expect_parts(outcomes[0].err, {"note: the ranks communicate over TCP: rank 1 (", "ulimit -v"});
  EXPECT_EQ(outcomes[1].err, "");
  for (auto& rank : ranks) rank["TEST_BACKEND"] = "shm";
  for (const auto& outcome : run_ranks(ranks, command)) {
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.out, {"rank 1 (", "could not map", "--backend gloo"});
  }
}

TEST(Init, RefusesOtherMethods) {
  for (const auto* method : {"", "env", "tcp://", "tcp://host", "tcp://:1", "tcp://host:", "tcp://host:99999",
                             "tcp://host:0", "tcp://host:1x", "file://", "http://a:1"}) {
    EXPECT_THROW(check_init_method(method), Error) << method;
  }
  for (const auto* method : {"env://", "tcp://host:1", "tcp://[::1]:1", "file:///tmp/store"}) {
    EXPECT_NO_THROW(check_init_method(method)) << method;
  }
}

Outcome run_torchrun(const std::vector<std::string>& options, Variables variables = {}) {
  std::vector<std::string> command = {"/usr/bin/env",          testing::torch_python(), "-m",
                                      "torch.distributed.run", "--nproc-per-node",      "2"};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back("--no-python");
  const auto rank = as_rank();
  command.insert(command.end(), rank.begin(), rank.end());
  variables.insert(no_launcher.begin(), no_launcher.end());
  return run_process(command, variables);
}

void expect_both_done(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("rank 0 of 2 done"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("rank 1 of 2 done"), std::string::npos) << outcome.out;
}

TEST(Init, UnderMpirun) {
  SKIP_WITHOUT_ANNEX(launcher_kinds);
  if (run_process({"/usr/bin/env", "mpirun", "--version"}).code != 0) {
    GTEST_SKIP() << "NOT RUN: there is no mpirun here";
  }
  std::vector<std::string> command = {"/usr/bin/env", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"};
  const auto rank = as_rank();
  command.insert(command.end(), rank.begin(), rank.end());
  expect_both_done(run_process(command, no_launcher));
}

TEST(Init, UnderPyTorchsLauncherStatic) {
  TANDEM_NEEDS_TORCH();
  expect_both_done(run_torchrun({"--master-port", free_port()}));
}

// The launcher's store continues to exist from one attempt to the next.
TEST(Init, UnderPyTorchsLauncherWithRendezvousAndARestart) {
  TANDEM_NEEDS_TORCH();
  const auto outcome = run_torchrun({"--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--max-restarts", "1"},
                                    {{"TEST_FAIL_FIRST", "1"}});
  expect_both_done(outcome);
}

}  // namespace
}  // namespace tandem::distributed
