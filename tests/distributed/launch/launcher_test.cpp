// Tests what tandemrun passes to its ranks: their numbers, the store, a port, arguments and cores.
#include <tandem/distributed/launch/launch_option_group.h>
#include <tandem/distributed/launch/launcher.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "support/launcher_fixture.h"

namespace tandem::distributed {
namespace {

using testing::expect_parts;
using testing::LauncherTest;
using testing::sorted_lines;

const std::string hello_world = TANDEM_PROGRAM_DIR "/hello_world";

TEST_F(LauncherTest, HelloWorld) {
  EXPECT_EQ(run({"--nproc-per-node", "4", hello_world}), 0);
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"Hello Barry", "[rank1] Hello Alice",
                                                           "[rank2] Hello Barbara", "[rank3] Hello Tom"}));
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, HelloWorldHasFourNames) {
  EXPECT_EQ(run({"--nproc-per-node=5", hello_world}), 1);
  expect_parts(err(), {"[rank4] hello_world: there are only 4 names"});
  expect_parts(err(), {"rank 4 failed first: exit code 1"});
}

TEST_F(LauncherTest, SetsTorchrunsVariables) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(run_shell(2, "test $RANK = 1 && env", {"--rdzv-id", "my run", "--role=trainer"}),
            1);  // rank 0 fails
  const auto lines = sorted_lines(out());
  const std::set<std::string> variables(lines.begin(), lines.end());
  for (const char* expected :
       {"RANK=1", "LOCAL_RANK=1", "ROLE_RANK=1", "GROUP_RANK=0", "ROLE_NAME=trainer", "WORLD_SIZE=2",
        "LOCAL_WORLD_SIZE=2", "ROLE_WORLD_SIZE=2", "GROUP_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1",
        "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=my run",
        "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}) {
    EXPECT_TRUE(variables.count("[rank1] " + std::string(expected))) << expected;
  }
  const auto threads = std::max(1, available_cores() / 2);
  EXPECT_TRUE(variables.count("[rank1] OMP_NUM_THREADS=" + std::to_string(threads)));
  expect_parts(out(), {"[rank1] TANDEM_STORE_TOKEN="});
  expect_parts(out(), {"[rank1] TORCHELASTIC_ERROR_FILE=/"});
  expect_parts(out(), {"[rank1] PATH="});
}

TEST_F(LauncherTest, KeepsTheUsersThreadCount) {
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(run_shell(1, "echo threads $OMP_NUM_THREADS"), 0);
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(out(), "threads 7\n");
}

TEST_F(LauncherTest, RanksSpinForAShortTimeUnlessTheUserChooses) {
  const std::string print = "echo ${GOMP_SPINCOUNT:-no count}, ${OMP_WAIT_POLICY:-no policy}";
  EXPECT_EQ(run_shell(1, print), 0);
  EXPECT_EQ(out(), "10000, no policy\n");
  setenv("OMP_WAIT_POLICY", "passive", 1);
  EXPECT_EQ(run_shell(1, print), 0);
  unsetenv("OMP_WAIT_POLICY");
  EXPECT_EQ(out(), "no count, passive\n");
  setenv("GOMP_SPINCOUNT", "7", 1);
  EXPECT_EQ(run_shell(1, print), 0);
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_EQ(out(), "7, no policy\n");
}

TEST_F(LauncherTest, OpenStoreHasNoToken) {
  EXPECT_EQ(run_shell(1, "echo \"token '$TANDEM_STORE_TOKEN'\"", {"--open-store"}), 0);
  EXPECT_EQ(out(), "token ''\n");
}

// Bash connects to the store, and sends the greeting and a ping.
const std::string store_script =
    "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; printf '\\0\\316\\367\\205\\074' >&3; "
    "printf '\\15ping' >&3; head -c 4 <&3";

TEST_F(LauncherTest, TellsWhyARankWithoutTheTokenGetsNoAnswer) {
  EXPECT_EQ(run({"bash", "-c", store_script}), 0);
  EXPECT_EQ(out(), "");
  expect_parts(err(), {"--open-store"});
  EXPECT_EQ(run({"--open-store", "bash", "-c", store_script}), 0);
  EXPECT_EQ(out(), "ping");
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, GivesThePortAsked) {
  int port;
  {
    const auto free_port = listen_on("127.0.0.1", 0);
    port = local_port(free_port);
  }
  const auto number = std::to_string(port);
  EXPECT_EQ(run_shell(1, "echo $MASTER_PORT", {"--master-port", number}), 0);
  EXPECT_EQ(out(), number + "\n");
  if (!launch_option_groups.entries().empty()) {
    const std::vector<std::string> endpoint = {"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:" + number};
    EXPECT_EQ(run_shell(1, "echo $MASTER_ADDR:$MASTER_PORT", endpoint), 0);
    EXPECT_EQ(out(), "localhost:" + number + "\n");
  }
  const auto free_again = listen_on("127.0.0.1", port);  // the launcher has released the port
  EXPECT_EQ(run_shell(1, "echo $MASTER_PORT", {"--master-port", number}), 1);
  expect_parts(err(), {"127.0.0.1:" + number});
  expect_parts(err(), {"in use"});
}

TEST_F(LauncherTest, PassesArgumentsOn) {
  EXPECT_EQ(run({"--standalone", "--no-python", "printf", "%s|", "--nproc_per_node", "-t", "--", "a b"}), 0);
  EXPECT_EQ(out(), "--nproc_per_node|-t|--|a b|");
  EXPECT_EQ(run({"--", "printf", "x"}), 0);
  EXPECT_EQ(out(), "x");
}

TEST_F(LauncherTest, BindsCores) {
  EXPECT_EQ(run_shell(2, "grep Cpus_allowed_list /proc/self/status", {"--bind", "cores"}), 0);
  const auto lines = sorted_lines(out());
  ASSERT_EQ(lines.size(), 2u);
  if (available_cores() > 1) {
    EXPECT_NE(lines[0].substr(lines[0].find("Cpus")), lines[1].substr(lines[1].find("Cpus")));
  }
}

TEST(Launch, RefusesNonsense) {
  EXPECT_THROW(launch({}, {}), Error);
  LaunchOptions options;
  options.processes = 0;
  EXPECT_THROW(launch(options, {"true"}), Error);
}

TEST(Launch, GivesSignalHandlersBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  EXPECT_EQ(launch({}, {"true"}), 0);
  EXPECT_EQ(launch({}, {"false"}), 1);
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace tandem::distributed
