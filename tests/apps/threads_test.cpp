// The number of threads of mnist_ddp's ranks, under every launcher.
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/cores.h>

#include <gtest/gtest.h>
#include <support/running_process.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

using testing::run_mnist_ddp;

class Threads : public testing::MnistDdp {};

// Each launcher knows only its own ranks, and a rank that was started by hand knows of no others.
TEST_F(Threads, AreDividedByAllRanksOfTheHost) {
  const int cores = distributed::available_cores();
  const std::string expected = std::to_string(std::max(1, cores / 2)) + (cores / 2 > 1 ? " threads" : " thread");
  const std::string port = std::to_string(distributed::TcpStoreServer({}).port());
  const std::map<std::string, std::string> common = {
      {"OMP_NUM_THREADS", ""}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"WORLD_SIZE", "2"}};
  const auto with = [&](const std::string& rank) {
    auto variables = common;
    variables["RANK"] = rank;
    return variables;
  };
  for (const bool by_launchers : {true, false}) {
    std::vector<std::unique_ptr<testing::RunningProcess>> processes;
    for (const char* rank : {"0", "1"}) {
      std::vector<std::string> command;
      if (by_launchers)
        command = {testing::tandemrun, "--nnodes",      "2", "--node-rank", rank, "--master-addr",
                   "127.0.0.1",        "--master-port", port};
      command.push_back(testing::mnist_ddp);
      const auto arguments = with_data({"--epochs", "1"});
      command.insert(command.end(), arguments.begin(), arguments.end());
      processes.push_back(std::make_unique<testing::RunningProcess>(
          command, by_launchers ? std::map<std::string, std::string>{{"OMP_NUM_THREADS", ""}} : with(rank)));
    }
    std::string said;
    for (auto& process : processes) {
      EXPECT_EQ(process->finish(std::chrono::seconds(60)), 0) << process->err();
      said += process->err();
    }
    EXPECT_NE(said.find(expected + " and "), std::string::npos) << said;
    EXPECT_EQ(said.find("wait for each other"), std::string::npos) << said;
  }
}

TEST_F(Threads, TooManyAreSaidOnce) {
  const std::string threads = std::to_string(distributed::available_cores() + 1);
  for (const int ranks : {1, 2}) {
    const auto outcome = run_mnist_ddp(ranks, with_data({"--epochs", "1", "--threads", threads, "--workers", threads}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const std::string& warning :
         {std::string("wait for each other"), "--workers " + threads + ": the number of available cores is "}) {
      const auto first = outcome.err.find(warning);
      EXPECT_NE(first, std::string::npos) << outcome.err;
      EXPECT_EQ(outcome.err.find(warning, first + 1), std::string::npos) << outcome.err;
    }
  }
}

}  // namespace
}  // namespace tandem
