// A job that loses a rank and restarts, on one or two hosts, ends with the same bits as an undisturbed job.
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>
#include <support/idx_files.h>
#include <support/network_namespaces.h>
#include <support/process.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::eventually;
using testing::expect_parts;
using testing::NetworkNamespaces;
using testing::read_bytes;
using testing::RunningProcess;
using testing::TemporaryFolder;

const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";
const std::map<std::string, std::string> one_thread = {{"OMP_NUM_THREADS", "1"}};

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Restart : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Runs mnist_ddp for a second or two, with many checkpoints. It writes its process IDs to files pid<rank>.<attempt>.
  Words training(const std::string& saved, const Words& more = {}) const {
    const std::string script = "echo $$ > " + path("pid") + "$RANK.$TORCHELASTIC_RESTART_COUNT; exec \"$@\"";
    return Words{"sh",
                 "-c",
                 script,
                 "sh",
                 TANDEM_PROGRAM_DIR "/mnist_ddp",
                 "--data",
                 TANDEM_SOURCE_DIR "/data/sample",
                 "--epochs",
                 "1",
                 "--max-steps",
                 "16",
                 "--lr",
                 "0.05",
                 "--momentum",
                 "0.9",
                 "--save",
                 path(saved)} +
           more;
  }
  Words checkpoints() const {
    return {"--checkpoint", path("checkpoints"), "--resume", "--save-every-steps", "2", "--timeout", "60"};
  }
  // The final weights of an undisturbed run with two ranks.
  std::string expected_weights() const {
    const auto outcome = testing::run_process(
        Words{tandemrun, "--nproc-per-node", "2"} + training("undisturbed.safetensors"), one_thread);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_bytes(folder_ / "undisturbed.safetensors");
  }
  std::size_t checkpoints_found() const {
    if (!fs::exists(folder_ / "checkpoints")) return 0;
    std::size_t found = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints"))
      found += entry.path().filename().string().starts_with("checkpoint-");
    return found;
  }
  // Kills a rank of the first attempt after its `count`-th checkpoint.
  void kill_in_the_middle(int rank, std::size_t count = 2) const {
    ASSERT_TRUE(eventually([&] { return checkpoints_found() >= count; }));
    const auto pid = std::stoi(read_bytes(folder_ / ("pid" + std::to_string(rank) + ".0")));
    ASSERT_GT(pid, 1);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
  }

  TemporaryFolder folder_;
};

TEST_F(Restart, AKilledRankCostsNothingButTime) {
  const auto expected = expected_weights();
  ASSERT_FALSE(expected.empty());
  for (const int rank : {0, 1}) {
    fs::remove_all(folder_ / "checkpoints");
    RunningProcess job(Words{tandemrun, "--nproc-per-node", "2", "--max-restarts", "1"} +
                           training("restarted.safetensors", checkpoints()),
                       one_thread);
    kill_in_the_middle(rank);
    EXPECT_EQ(job.finish(), 0) << job.err();
    expect_parts(job.err(), {"rank " + std::to_string(rank) + " failed first: killed by SIGKILL", "restart 1 of 1",
                             "resumed from"});
    EXPECT_TRUE(read_bytes(folder_ / "restarted.safetensors") == expected) << "rank " << rank << " was killed";
  }
}

class TwoHosts : public Restart {
 protected:
  void SetUp() override {
    if (!hosts_.are_usable())
      GTEST_SKIP() << "NOT RUN: two hosts are two network namespaces here, which need root and ip(8): "
                   << hosts_.problem();
    setenv("TANDEM_STORE_TOKEN", "a secret of both", 1);
  }
  void TearDown() override { unsetenv("TANDEM_STORE_TOKEN"); }
  // The launcher of one of the two nodes. The host's name can't be resolved in a network namespace.
  Words node(int number, const Words& options, const Words& program) const {
    return hosts_.in(number) + Words{tandemrun, "--nproc-per-node", "1"} + options + program;
  }
  Words fixed(int number) const {
    return {"--nnodes",      "2",    "--node-rank", std::to_string(number), "--master-addr", hosts_.address(0),
            "--master-port", "29555"};
  }
  Words dynamic() const {
    return {"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", hosts_.address(1), "--rdzv-id", "mnist"};
  }

  NetworkNamespaces hosts_;
};

TEST_F(TwoHosts, TrainAsOneDoes) {
  const auto expected = expected_weights();
  for (const bool is_fixed : {true, false}) {
    fs::remove(folder_ / "two.safetensors");
    RunningProcess first(node(0, is_fixed ? fixed(0) : dynamic(), training("two.safetensors")), one_thread);
    RunningProcess second(node(1, is_fixed ? fixed(1) : dynamic(), training("two.safetensors")), one_thread);
    EXPECT_EQ(first.finish(), 0) << first.err();
    EXPECT_EQ(second.finish(), 0) << second.err();
    EXPECT_TRUE(read_bytes(folder_ / "two.safetensors") == expected);
    // With c10d, the host of the endpoint comes first.
    expect_parts((is_fixed ? first : second).out(), {"Total loss: "});
    expect_parts((is_fixed ? first : second).err(), {"node 0 of 2 starts rank 0 of 2", "2 processes"});
  }
}

// The namespaces have no network, so a host without MNIST's files has only the bundled sample.
TEST_F(TwoHosts, TrainOnTheSampleOnlyTogether) {
  fs::create_directory(folder_ / "empty");
  const auto program = [&](const std::string& data) {
    return Words{
        "env", "XDG_CACHE_HOME=" + path("empty"), "TANDEM_DATA=" + data, TANDEM_PROGRAM_DIR "/mnist_ddp", "--max-steps",
        "2"};
  };
  for (const bool first_has_files : {true, false}) {
    RunningProcess first(node(0, fixed(0), program(first_has_files ? TANDEM_SOURCE_DIR "/data/sample" : "")));
    RunningProcess second(node(1, fixed(1), program("")));
    EXPECT_EQ(first.finish(), first_has_files ? 1 : 0) << first.err();
    EXPECT_EQ(second.finish(), first_has_files ? 1 : 0) << second.err();
    if (first_has_files)
      expect_parts(second.err(), {"the hosts do not have the same MNIST: rank 1 on host ",
                                  "has only the bundled sample", "rank 0 on host ", "TANDEM_DATA"});
  }
}

// Both hosts have the same training images, but different test images.
TEST_F(TwoHosts, WithDifferentFilesDoNotTrain) {
  fs::create_directory(folder_ / "short");
  const auto copy = [&](const char* name) {
    fs::copy(fs::path(TANDEM_SOURCE_DIR "/data/sample") / (std::string(name) + ".gz"), folder_ / "short");
  };
  copy("train-images-idx3-ubyte");
  copy("train-labels-idx1-ubyte");
  testing::write_bytes(folder_ / "short/t10k-images-idx3-ubyte",
                       testing::idx_bytes({1, 28, 28}, std::string(28 * 28, 'x')));
  testing::write_bytes(folder_ / "short/t10k-labels-idx1-ubyte", testing::idx_bytes({1}, "\1"));
  const auto program = [](const std::string& data) {
    return Words{TANDEM_PROGRAM_DIR "/mnist_ddp", "--max-steps", "2", "--data", data};
  };
  RunningProcess first(node(0, fixed(0), program(TANDEM_SOURCE_DIR "/data/sample")));
  RunningProcess second(node(1, fixed(1), program(path("short"))));
  EXPECT_EQ(first.finish(), 1) << first.err();
  EXPECT_EQ(second.finish(), 1) << second.err();
  expect_parts(second.err(), {"the ranks do not have the same test images: rank ", " has 2000", " has 1"});
}

TEST_F(TwoHosts, NeedATokenOrLeaveToDoWithout) {
  unsetenv("TANDEM_STORE_TOKEN");
  testing::RunningProcess without(node(0, fixed(0), {"true"}));
  EXPECT_EQ(without.finish(), 1);
  expect_parts(without.err(), {"TANDEM_STORE_TOKEN", "TANDEM_STORE_TOKEN_FILE", "--open-store"});
  testing::RunningProcess first(node(0, fixed(0) + Words{"--open-store"}, {"true"})),
      second(node(1, fixed(1) + Words{"--open-store"}, {"true"}));
  EXPECT_EQ(first.finish(), 0) << first.err();
  EXPECT_EQ(second.finish(), 0) << second.err();
}

TEST_F(TwoHosts, AKilledRankOnOneRestartsBoth) {
  const auto expected = expected_weights();
  const auto program = training("restarted.safetensors", checkpoints());
  RunningProcess first(node(0, fixed(0) + Words{"--max-restarts=1"}, program), one_thread);
  RunningProcess second(node(1, fixed(1) + Words{"--max-restarts=1"}, program), one_thread);
  kill_in_the_middle(1);
  EXPECT_EQ(first.finish(), 0) << first.err();
  EXPECT_EQ(second.finish(), 0) << second.err();
  expect_parts(first.err(), {"rank 1 failed first: killed by SIGKILL", "restart 1 of 1", "resumed from"});
  EXPECT_TRUE(read_bytes(folder_ / "restarted.safetensors") == expected);
}

TEST_F(TwoHosts, ALostNetworkEndsBothSides) {
  const auto program = training("lost.safetensors", {"--epochs", "50", "--max-steps", "100000", "--timeout", "4",
                                                     "--checkpoint", path("checkpoints"), "--save-every-steps", "2"});
  const Words impatient = {"--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2"};
  RunningProcess first(node(0, fixed(0) + impatient, program), one_thread);
  RunningProcess second(node(1, fixed(1) + impatient, program), one_thread);
  ASSERT_TRUE(eventually([&] { return checkpoints_found() > 0; }));
  hosts_.cut();
  EXPECT_NE(first.finish(30s), 0);
  EXPECT_NE(second.finish(30s), 0);
  expect_parts(first.err(), {"--node-rank 1) has not been heard from"});
  expect_parts(second.err(), {"lost the node that serves the store at " + hosts_.address(0)});
}

}  // namespace
}  // namespace tandem
