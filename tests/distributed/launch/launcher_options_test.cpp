// Tests tandemrun's command line: the arguments that it accepts, and the errors for all others.
#include <tandem/distributed/launch/launch_option_group.h>

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/annexes.h"
#include "support/launcher_fixture.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::expect_parts;
using testing::LauncherTest;
using testing::sorted_lines;

TEST_F(LauncherTest, AMissingProgramIsNamed) {
  EXPECT_EQ(run({"--nproc-per-node=2", "no_such_program"}), 1);
  expect_parts(err(), {"cannot run no_such_program: it is in no folder of PATH; give its path"});
  EXPECT_EQ(run({"./no/such/program"}), 1);
  expect_parts(err(), {"cannot run ./no/such/program: No such file"});
  std::ofstream(folder_ / "train.py") << "print()\n";
  EXPECT_EQ(run({(folder_ / "train.py").string()}), 1);
  expect_parts(err(), {"train.py: Permission denied"});
  fs::permissions(folder_ / "train.py", fs::perms::owner_all);
  EXPECT_EQ(run({"--nproc-per-node=2", (folder_ / "train.py").string()}), 1);
  expect_parts(err(), {"train.py: Exec format error"});
  EXPECT_EQ(run({folder_.string()}), 1);
  expect_parts(err(), {"not a file"});
}

using Cases = std::vector<std::pair<std::vector<std::string>, std::string>>;

class WrongUsageTest : public LauncherTest {
 protected:
  void expect_named(const Cases& cases) {
    for (const auto& [arguments, expected] : cases) {
      EXPECT_EQ(run(arguments), 2) << expected;
      expect_parts(err(), {expected});
      EXPECT_EQ(out(), "");
    }
  }
};

TEST_F(WrongUsageTest, IsNamed) {
  expect_named({
      {{"--frobnicate", "true"}, "--frobnicate"},
      {{"-x", "true"}, "-x"},
      {{"--nproc-per-node", "0", "true"}, "--nproc-per-node 0"},
      {{"--nproc-per-node", "many", "true"}, "--nproc-per-node many"},
      {{"--nproc-per-node=-3", "true"}, "--nproc-per-node -3"},
      {{"--nproc-per-node=gpu", "true"}, "--nproc-per-node gpu"},
      {{"--max-restarts", "-1", "true"}, "--max-restarts -1: expected a whole number of at least 0\n"},
      {{"--max-restarts=x", "true"}, "--max-restarts x: expected a whole number of at least 0\n"},
      {{"-m", "package.module"}, "--module"},
      {{"--master-port=70000", "true"}, "--master-port 70000: expected a whole number from 0 to 65535\n"},
      {{"--grace=-1", "true"}, "--grace -1: expected seconds, from 0 to 1000000\n"},
      {{"--grace=nan", "true"}, "--grace nan: expected seconds"},
      {{"--redirects=4", "true"}, "--redirects 4"},
      {{"--tee=0:1,x:2", "true"}, "--tee 0:1,x:2"},
      {{"--local-ranks-filter=1", "true"}, "--local-ranks-filter 1"},
      {{"--local-ranks-filter=0,x", "true"}, "--local-ranks-filter x: expected a whole number of at least 0\n"},
      {{"--bind=sockets", "true"}, "--bind"},
      {{"--nproc-per-node"}, "--nproc-per-node"},
      {{"--nproc-per-node=", "--standalone", "true"}, "--nproc-per-node : expected a number"},
      {{"--standalone"}, "no program"},
      {{}, "no program"},
  });
}

TEST_F(WrongUsageTest, OfOptionsForSeveralHostsIsNamed) {
  SKIP_WITHOUT_ANNEX(launch_option_groups);
  expect_named({
      {{"--nnodes=2", "true"}, "--nnodes 2"},
      {{"--nnodes=0", "true"}, "--nnodes 0"},
      {{"--nnodes=3:2", "true"}, "--nnodes 3:2"},
      {{"--nnodes=2:", "true"}, "--nnodes 2:"},
      {{"--nnodes=1:2", "--master-addr=a", "true"}, "--nnodes 1:2: a range of hosts needs --rdzv-backend c10d"},
      {{"--nnodes=2", "--standalone", "--master-addr=a", "true"}, "--standalone --nnodes 2"},
      {{"--nnodes=2", "--node-rank=2", "--master-addr=a", "true"}, "--node-rank 2"},
      {{"--rdzv-conf=timeout=soon", "true"}, "--rdzv-conf timeout=soon"},
      {{"--rdzv-conf=patience=5", "true"}, "--rdzv-conf patience=5"},
      {{"--rdzv-conf=is_host=maybe", "true"}, "is_host=maybe"},
      {{"--rdzv-endpoint=[::1", "true"}, "--rdzv-endpoint [::1"},
      {{"--monitor-interval=0", "true"}, "--monitor-interval 0: expected seconds, from 0.001 to 60\n"},
      {{"--node-rank=1", "true"}, "--node-rank 1"},
      {{"--node-rank=-1", "true"}, "--node-rank -1: expected a whole number of at least 0\n"},
      {{"--rdzv-endpoint=host:port", "true"}, "--rdzv-endpoint host:port"},
      {{"--rdzv-endpoint=localhost:0", "--master-port=5", "true"}, "--master-port"},
      {{"--rdzv-backend=etcd", "true"}, "--rdzv-backend"},
  });
}

TEST_F(LauncherTest, HelpIsNoError) {
  EXPECT_EQ(run({"--help"}), 0);
  expect_parts(out(), {"--nproc-per-node"});
}

TEST_F(LauncherTest, AcceptsTorchrunsOtherOptions) {
  SKIP_WITHOUT_ANNEX(launch_option_groups);
  EXPECT_EQ(run_shell(1, "true",
                      {"--nnodes=1:1", "--node_rank=0", "--rdzv-conf", "timeout=900,is_host=1", "--monitor-interval=1",
                       "--start-method=fork", "--use-env", "--master-addr=localhost"}),
            0);
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, TakesDefaultsFromTheEnvironment) {
  setenv("PET_NPROC_PER_NODE", "2", 1);
  setenv("PET_ROLE", "trainer", 1);
  setenv("PET_STANDALONE", "1", 1);
  EXPECT_EQ(run({"sh", "-c", "echo $ROLE_NAME $WORLD_SIZE"}), 0) << err();
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"[rank1] trainer 2", "trainer 2"}));
  EXPECT_EQ(run({"--nproc_per_node=1", "sh", "-c", "echo $ROLE_NAME $WORLD_SIZE"}), 0);
  EXPECT_EQ(out(), "trainer 1\n");
  setenv("PET_NPROC_PER_NODE", "few", 1);
  EXPECT_EQ(run({"true"}), 2);
  expect_parts(err(), {"--nproc-per-node few"});
  for (const char* name : {"PET_NPROC_PER_NODE", "PET_ROLE", "PET_STANDALONE"}) unsetenv(name);
}

}  // namespace
}  // namespace tandem::distributed
