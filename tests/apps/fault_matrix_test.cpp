// Every kind of failure at every point of a job: it ends in time, with an error, names the guilty rank, and leaves
// nothing.
#include <tandem/distributed/training/checkpoint.h>

#include <gtest/gtest.h>
#include <support/network_namespaces.h>
#include <support/process.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <filesystem>
#include <fstream>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::read_bytes;
using testing::TemporaryFolder;

struct Fault {
  std::string kind, point;
  int ranks;
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.kind << " at " << fault.point << " of " << fault.ranks << " ranks";
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  for (const int ranks : {2, 4}) {
    for (const std::string point : {"init", "construction", "backward", "bucket", "checkpoint", "barrier"}) {
      for (const std::string kind : {"kill", "stop", "exception", "abort", "exit"}) {
        faults.push_back({kind, point, ranks});
      }
    }
  }
  return faults;
}

// Processes that were started with `mark` in their environment.
std::vector<std::string> processes_with(const std::string& mark) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (environment.find(mark) != std::string::npos) found.push_back(entry.path().filename());
  }
  return found;
}

class FaultMatrix : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultMatrix, ends_in_time_names_the_rank_and_leaves_nothing) {
  const auto& [kind, point, ranks] = GetParam();
  const TemporaryFolder folder;
  fs::create_directory(folder / "checkpoints");
  fs::create_directory(folder / "tmp");
  const int faulty = point == "checkpoint" ? 0 : ranks - 1;
  const std::string mark = "tandem-fault-" + std::to_string(getpid()) + kind + point + std::to_string(ranks);

  const auto outcome = testing::run_process(
      {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", std::to_string(ranks), "--grace", "1",
       TANDEM_PROGRAM_DIR "/fault_worker", "--fault", kind, "--point", point, "--rank", std::to_string(faulty),
       "--checkpoint", (folder / "checkpoints").string(), "--timeout", "2"},
      {{"OMP_NUM_THREADS", "1"}, {"TMPDIR", (folder / "tmp").string()}, {"TANDEM_TEST_MARK", mark}},
      std::chrono::seconds(60));

  EXPECT_GT(outcome.code, 0) << outcome.err;
  EXPECT_LT(outcome.seconds, 20);
  EXPECT_NE(outcome.err.find("rank " + std::to_string(faulty)), std::string::npos) << outcome.err;
  if (kind == "exception") {
    // Its own words come first.
    const auto report = outcome.err.substr(outcome.err.find("tandemrun: "));
    EXPECT_EQ(report.find("tandemrun: rank " + std::to_string(faulty) + " failed first"), 0u) << outcome.err;
    EXPECT_NE(report.find("injected"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(processes_with(mark), std::vector<std::string>());
  // What the ranks did last stays, and nothing else. A rank that fails before the ranks have met leaves no record.
  int records = 0;
  for (const auto& entry : fs::directory_iterator(folder / "tmp")) {
    const bool is_record = entry.path().filename().string().starts_with("tandem-flight-");
    EXPECT_TRUE(is_record) << "left behind: " << entry.path();
    records += is_record;
    if (!is_record || point == "checkpoint" || point == "barrier") continue;
    const auto explained = testing::run_process({TANDEM_PROGRAM_DIR "/tandemrun", "--explain", entry.path()});
    EXPECT_EQ(explained.code, 0) << explained.err;
    if (point == "backward" || point == "bucket") {
      EXPECT_EQ(explained.out.find("rank " + std::to_string(faulty) + " ("), 0u) << explained.out;
    }
  }
  EXPECT_EQ(records, point == "init" ? 0 : 1);
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    EXPECT_NO_THROW(distributed::read_checkpoint(entry.path())) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultMatrix, ::testing::ValuesIn(all_faults()), [](const auto& info) {
  return info.param.kind + "_at_" + info.param.point + "_of_" + std::to_string(info.param.ranks);
});

// Two hosts, and the cable between them is cut when the last rank comes to the point.
class LostNetwork : public ::testing::TestWithParam<Fault> {};

TEST_P(LostNetwork, ends_both_sides_in_time_and_leaves_nothing) {
  const auto& [kind, point, ranks] = GetParam();
  testing::NetworkNamespaces hosts;
  if (!hosts.are_usable())
    GTEST_SKIP() << "NOT RUN: two hosts are two network namespaces here, which need root and ip(8): "
                 << hosts.problem();
  const TemporaryFolder folder;
  fs::create_directory(folder / "checkpoints");
  const int faulty = point == "checkpoint" ? 0 : ranks - 1;
  const std::string mark = "tandem-lost-" + std::to_string(getpid()) + point + std::to_string(ranks);
  const auto node = [&](int number) {
    auto command = hosts.in(number);
    const std::vector<std::string> rest = {TANDEM_PROGRAM_DIR "/tandemrun",
                                           "--nproc-per-node",
                                           std::to_string(ranks / 2),
                                           "--nnodes",
                                           "2",
                                           "--node-rank",
                                           std::to_string(number),
                                           "--master-addr",
                                           hosts.address(0),
                                           "--master-port",
                                           "29556",
                                           "--rdzv-conf",
                                           "keep_alive_interval=1,keep_alive_max_attempt=2",
                                           "--grace",
                                           "1",
                                           TANDEM_PROGRAM_DIR "/fault_worker",
                                           "--fault",
                                           "mark",
                                           "--point",
                                           point,
                                           "--rank",
                                           std::to_string(faulty),
                                           "--mark",
                                           (folder / "mark").string(),
                                           "--checkpoint",
                                           (folder / "checkpoints").string(),
                                           "--timeout",
                                           "3",
                                           "--interface",
                                           hosts.network()};
    command.insert(command.end(), rest.begin(), rest.end());
    return command;
  };
  const std::map<std::string, std::string> variables = {
      {"OMP_NUM_THREADS", "1"}, {"TANDEM_TEST_MARK", mark}, {"TANDEM_STORE_TOKEN", "a secret of both"}};
  testing::RunningProcess first(node(0), variables), second(node(1), variables);
  ASSERT_TRUE(testing::eventually([&] { return fs::exists(folder / "mark"); })) << first.err() << second.err();
  hosts.cut();
  fs::remove(folder / "mark");

  EXPECT_GT(first.finish(std::chrono::seconds(30)), 0) << first.err();
  EXPECT_GT(second.finish(std::chrono::seconds(30)), 0) << second.err();
  EXPECT_NE(first.err().find("--node-rank 1"), std::string::npos) << first.err();
  EXPECT_NE(second.err().find("lost the node that serves"), std::string::npos) << second.err();
  EXPECT_EQ(processes_with(mark), std::vector<std::string>());
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    EXPECT_NO_THROW(distributed::read_checkpoint(entry.path())) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LostNetwork, ::testing::ValuesIn([] {
      std::vector<Fault> faults;
      for (const int ranks : {2, 4}) {
        for (const std::string point : {"init", "construction", "backward", "bucket", "checkpoint", "barrier"})
          faults.push_back({"drop", point, ranks});
      }
      return faults;
    }()),
    [](const auto& info) { return "at_" + info.param.point + "_of_" + std::to_string(info.param.ranks); });

}  // namespace
}  // namespace tandem
