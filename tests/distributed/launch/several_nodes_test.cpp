// Tests launchers of several nodes that meet over the loopback of one host.
#include <tandem/distributed/launch/node_rendezvous.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>
#include <support/annexes.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::expect_parts;
using testing::RunningProcess;

class SeveralNodes : public ::testing::Test {
 protected:
  SeveralNodes() : port_(std::to_string(local_port(listen_on("127.0.0.1", 0)))) {}
  void SetUp() override { SKIP_WITHOUT_ANNEX(rendezvous_of_many_nodes); }

  using Node = std::unique_ptr<RunningProcess>;
  static Node start(std::vector<std::string> options, const std::string& script) {
    options.insert(options.begin(), TANDEM_PROGRAM_DIR "/tandemrun");
    options.insert(options.end(), {"sh", "-c", script});
    return std::make_unique<RunningProcess>(options);
  }
  Node start_static(int node_rank, const std::string& script, std::vector<std::string> more = {}, int nodes = 2) const {
    more.insert(more.begin(), {"--nnodes", std::to_string(nodes), "--node-rank", std::to_string(node_rank),
                               "--master-addr", "127.0.0.1", "--master-port", port_});
    return start(more, script);
  }
  Node start_dynamic(const std::string& nodes, const std::string& script, std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:" + port_, "--rdzv-id",
                 "run", "--rdzv-conf", "last_call_timeout=0.3,keep_alive_interval=0.5,keep_alive_max_attempt=2"});
    return start(more, script);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void wait_for(const std::string& name) const {
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_ / name); })) << name;
  }

  testing::TemporaryFolder folder_;
  std::string port_;
};

const std::string show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE";

TEST_F(SeveralNodes, StaticNodesGetTheRanksOfTheirNumbers) {
  // Node 1 starts first, and has a different number of processes.
  const auto second = start_static(1, show, {"--nproc-per-node=1"});
  const auto first =
      start_static(0, show + " $MASTER_ADDR:$MASTER_PORT $ROLE_RANK/$ROLE_WORLD_SIZE", {"--nproc-per-node=2"});
  EXPECT_EQ(first->finish(), 0) << first->err();
  EXPECT_EQ(second->finish(), 0) << second->err();
  const auto address = " 127.0.0.1:" + port_;
  expect_parts(first->out(), {"0/3 0/2 0/2" + address + " 0/3\n", "[rank1] 1/3 1/2 0/2" + address + " 1/3\n"});
  EXPECT_EQ(second->out(), "[rank2] 2/3 0/1 1/2\n");
  expect_parts(first->err(), {"tandemrun: node 0 of 2 starts ranks 0 to 1 of 3\n"});
}

// The local addresses on which a process listens at `port`, in the kernel's notation.
std::vector<std::string> addresses_listening(const std::string& port) {
  std::vector<std::string> found;
  char hexadecimal[8];
  std::snprintf(hexadecimal, sizeof hexadecimal, ":%04X", static_cast<unsigned>(std::stoi(port)));
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string number, local, remote, state, rest;
    std::getline(lines, rest);
    while (lines >> number >> local >> remote >> state && std::getline(lines, rest))
      if (state == "0A" && local.ends_with(hexadecimal)) found.push_back(local.substr(0, local.size() - 5));
  }
  return found;
}

TEST_F(SeveralNodes, WhoMeetAtALoopbackAddressAreNotReachedFromElsewhere) {
  const auto first = start_static(0, show);
  EXPECT_TRUE(eventually([&] { return !addresses_listening(port_).empty(); }));
  EXPECT_EQ(addresses_listening(port_), std::vector<std::string>{"0100007F"});  // 127.0.0.1
  const auto second = start_static(1, show);
  EXPECT_EQ(first->finish(), 0) << first->err();
  EXPECT_EQ(second->finish(), 0) << second->err();
}

TEST_F(SeveralNodes, DynamicNodesGetRanksAsTheyArrive) {
  const auto first = start_dynamic("2", show);
  const auto second = start_dynamic("2", show);
  EXPECT_EQ(first->finish(), 0) << first->err();
  EXPECT_EQ(second->finish(), 0) << second->err();
  const auto both = first->out() + second->out();
  expect_parts(both, {"0/2 0/1 0/2\n", "[rank1] 1/2 0/1 1/2\n"});
}

TEST_F(SeveralNodes, FewerThanTheMaximumGoOnAfterALastCall) {
  const auto only = start_dynamic("1:3", show);
  EXPECT_EQ(only->finish(), 0) << only->err();
  EXPECT_EQ(only->out(), "0/1 0/1 0/1\n");
}

TEST_F(SeveralNodes, AFailureOnOneEndsAllAndIsExplainedByAll) {
  const std::string script = "if [ $RANK = 2 ]; then echo the reason >&2; exit 7; fi; exec sleep 60";
  const auto first = start_static(0, script, {"--nproc-per-node=2"});
  const auto second = start_static(1, script, {"--nproc-per-node=2"});
  for (const auto& node : {first.get(), second.get()}) {
    EXPECT_EQ(node->finish(10s), 7);
    expect_parts(node->err(), {"rank 2 failed first: exit code 7 (host ", "    the reason\n"});
  }
}

TEST_F(SeveralNodes, AllStartAgainAfterAFailureOnOne) {
  const std::string script =
      "if [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ]; then exit 7; fi; "
      "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exec sleep 60; fi; "
      "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS";
  const auto first = start_static(0, script, {"--max-restarts=3"});
  const auto second = start_static(1, script, {"--max-restarts=3"});
  EXPECT_EQ(first->finish(), 0) << first->err();
  EXPECT_EQ(second->finish(), 0) << second->err();
  EXPECT_EQ(first->out(), "attempt 1 of 3\n");
  EXPECT_EQ(second->out(), "[rank1] attempt 1 of 3\n");
  expect_parts(first->err(), {"rank 1 failed first: exit code 7", "all ranks start again: restart 1 of 3"});
}

TEST_F(SeveralNodes, ASignalToOneEndsAll) {
  const auto script = "echo x > " + path("up$RANK") + "; exec sleep 60";
  const auto first = start_static(0, script);
  const auto second = start_static(1, script);
  wait_for("up0");
  wait_for("up1");
  second->send(SIGTERM);
  EXPECT_EQ(second->finish(10s), 128 + SIGTERM);
  EXPECT_EQ(first->finish(10s), 128 + SIGTERM);
  expect_parts(first->err(), {"--node-rank 1) was stopped by SIGTERM"});
}

TEST_F(SeveralNodes, ANodeWithoutTheServingOneEnds) {
  const auto script = "echo $$ > " + path("up$RANK") + "; exec sleep 60";
  const auto first = start_static(0, script);
  const auto second = start_static(1, script);
  wait_for("up0");
  wait_for("up1");
  first->send(SIGKILL);
  EXPECT_EQ(first->finish(10s), 128 + SIGKILL);
  EXPECT_EQ(second->finish(10s), 1);
  expect_parts(second->err(), {"lost the node that serves the store at 127.0.0.1:" + port_});
}

TEST_F(SeveralNodes, WithoutTheServingOneSaysWhatToLookAt) {
  const auto node = start_static(1, "true", {"--rdzv-conf", "join_timeout=1"});
  EXPECT_EQ(node->finish(20s), 1);
  expect_parts(node->err(), {"waited 1 s for the node that serves 127.0.0.1:" + port_ + " in vain",
                             "whether tandemrun is running there",
                             "--master-addr and --master-port, or --rdzv-endpoint", "firewall", "Connection refused"});
}

TEST_F(SeveralNodes, AStatusThatIsNoneIsNoLostNode) {
  const auto script = "echo x > " + path("up$RANK") + "; exec sleep 60";
  const std::vector<std::string> options{"--rdzv-id", "run", "--open-store"};
  const auto first = start_static(0, script, options);
  const auto second = start_static(1, script, options);
  wait_for("up0");
  wait_for("up1");
  const auto store =
      prefix_store("tandemrun/run", std::make_shared<TcpStore>(TcpStore::Options{"127.0.0.1", std::stoi(port_)}));
  // This uses a third node's key, because the two nodes keep overwriting their own.
  store->set("node/" + std::to_string(store->add("nodes", 1) - 1), "7 nonsense");
  for (const auto& node : {first.get(), second.get()}) {
    EXPECT_EQ(node->finish(10s), 1);
    expect_parts(node->err(), {"the store contains a node's status that this version cannot read"});
    EXPECT_EQ(node->err().find("lost the node"), std::string::npos) << node->err();
  }
}

TEST_F(SeveralNodes, TheOthersGoOnWithoutALostNode) {
  const auto script = "echo x > " + path("up$RANK.$TORCHELASTIC_RESTART_COUNT") +
                      "; if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exec sleep 60; fi; " + show;
  const auto first = start_dynamic("1:2", script, {"--max-restarts=1"});
  ASSERT_TRUE(eventually([&] {  // node 0 serves the store
    try {
      connect_to("localhost", std::stoi(port_), RunningTime::now());
      return true;
    } catch (const Error&) {
      return false;
    }
  }));
  const auto second = start_dynamic("1:2", script, {"--max-restarts=1"});
  wait_for("up1.0");
  second->send(SIGKILL);
  EXPECT_EQ(first->finish(20s), 0) << first->err();
  EXPECT_EQ(first->out(), "0/1 0/1 0/1\n");
  expect_parts(first->err(), {"has not been heard from", "restart 1 of 1"});
}

TEST_F(SeveralNodes, ANodeThatComesLaterIsTakenIn) {
  const auto script =
      "echo x > " + path("up$RANK.$WORLD_SIZE") + "; if [ $WORLD_SIZE = 1 ]; then exec sleep 60; fi; " + show;
  const auto first = start_dynamic("1:2", script);
  wait_for("up0.1");
  const auto second = start_dynamic("1:2", script);
  EXPECT_EQ(first->finish(), 0) << first->err();
  EXPECT_EQ(second->finish(), 0) << second->err();
  EXPECT_EQ(first->out(), "0/2 0/1 0/2\n");
  EXPECT_EQ(second->out(), "[rank1] 1/2 0/1 1/2\n");
  expect_parts(first->err(), {"has joined", "all ranks start again"});
}

TEST_F(SeveralNodes, AWrongCommandLineOfALateNodeEndsThatNodeAlone) {
  const auto script = "echo x > " + path("up$RANK.$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT") +
                      "; if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then echo done; else exec sleep 60; fi";
  const auto first = start_dynamic("1:2", script);
  wait_for("up0.1.0");
  const auto second = start_dynamic("1:2", "exit 2");
  EXPECT_EQ(second->finish(20s), 2) << second->err();
  EXPECT_EQ(first->finish(20s), 0) << first->err();
  EXPECT_EQ(first->out(), "done\n");
  expect_parts(first->err(), {"joined with a wrong command line", "the other nodes continue without it"});
  expect_parts(second->err(), {"the job continues without this node"});
}

TEST_F(SeveralNodes, GivesUpWhenTooFewCome) {
  const auto first = start_static(0, "true", {"--rdzv-conf=join_timeout=0.5"});
  EXPECT_EQ(first->finish(10s), 1);
  expect_parts(first->err(), {"waited 0.5 s", "only 1 of 2 nodes arrived"});
  const auto second = start_static(1, "true", {"--rdzv-conf=timeout=0.5"});
  EXPECT_EQ(second->finish(10s), 1);
  expect_parts(second->err(), {"127.0.0.1:" + port_});
}

TEST_F(SeveralNodes, ASignalEndsTheWaitForOthers) {
  for (const int node : {0, 1}) {
    const auto alone = start_static(node, "true");
    ASSERT_TRUE(eventually([&] { return !alone->err().empty(); }));
    alone->send(SIGINT);
    EXPECT_EQ(alone->finish(10s), 128 + SIGINT) << "node " << node;
  }
}

TEST_F(SeveralNodes, ANodeTooManyIsToldSo) {
  const std::string script =
      "touch " + path("running") + "$RANK; while [ ! -e " + path("go") + " ]; do sleep 0.02; done";
  const auto first = start_static(0, script);
  const auto second = start_static(1, script);
  wait_for("running0");
  wait_for("running1");
  const auto third = start_static(1, script);
  ASSERT_TRUE(eventually([&] { return !third->err().empty(); }));
  std::ofstream(path("go")).put('!');
  EXPECT_EQ(third->finish(20s), 1);
  expect_parts(third->err(), {"ended without this node", "--node-rank"});
  EXPECT_EQ(first->finish(20s), 0) << first->err();
  EXPECT_EQ(second->finish(20s), 0) << second->err();
}

TEST_F(SeveralNodes, ANodeWithAnotherSecretIsTurnedAway) {
  const auto first = start_static(0, "true", {"--rdzv-conf=join_timeout=6"});
  setenv("TANDEM_STORE_TOKEN", "another secret", 1);
  const auto second = start_static(1, "true", {"--rdzv-conf=join_timeout=6"});
  unsetenv("TANDEM_STORE_TOKEN");
  EXPECT_EQ(second->finish(20s), 1);
  expect_parts(second->err(), {"another job's token"});
  first->send(SIGTERM);
  first->finish(20s);
}

}  // namespace
}  // namespace tandem::distributed
