// Injects every kind of failure at every point of a job. The job must end in time with an error, name the guilty rank,
// and leave nothing behind.
#include <tandem/distributed/training/checkpoints/checkpoint.h>

#include <gtest/gtest.h>
#include <support/network_namespaces.h>
#include <support/process.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>
#include <unistd.h>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
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

// Returns the processes that were started with `mark` in their environment.
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
    // The report about the failed rank comes first.
    const auto report = outcome.err.substr(outcome.err.find("tandemrun: "));
    EXPECT_EQ(report.find("tandemrun: rank " + std::to_string(faulty) + " failed first"), 0u) << outcome.err;
    // The rank reports its error, and no other process repeats it.
    const auto said = outcome.err.find("injected");
    EXPECT_NE(said, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("injected", said + 1), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(processes_with(mark), std::vector<std::string>());
  // Only flight records remain. A rank that fails before the ranks have met leaves no record.
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

// Two hosts, each with half of the ranks. When the last rank reaches the point, one host or the network between the
// hosts fails.
class TwoHosts : public ::testing::TestWithParam<Fault> {
 protected:
  static constexpr int seconds_allowed = 20;  // from the fault to the end of both launchers

  std::vector<std::string> command(const testing::NetworkNamespaces& hosts, int node, int faulty) const {
    const auto& [kind, point, ranks] = GetParam();
    auto words = hosts.in(node);
    const std::vector<std::string> rest = {TANDEM_PROGRAM_DIR "/tandemrun",
                                           "--nproc-per-node",
                                           std::to_string(ranks / 2),
                                           "--nnodes",
                                           "2",
                                           "--node-rank",
                                           std::to_string(node),
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
                                           (folder_ / "mark").string(),
                                           "--checkpoint",
                                           (folder_ / "checkpoints").string(),
                                           "--timeout",
                                           "3",
                                           "--interface",
                                           hosts.network()};
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }

  // Returns the process that runs rank `rank` of the job started with `mark` in its environment.
  static pid_t process_of(int rank, const std::string& mark) {
    for (const auto& pid : processes_with(mark)) {
      std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
      for (std::string variable; std::getline(file, variable, '\0');) {
        if (variable == "RANK=" + std::to_string(rank)) return std::stoi(pid);
      }
    }
    return -1;
  }

  const TemporaryFolder folder_;
};

TEST_P(TwoHosts, end_in_time_name_the_guilty_and_leave_nothing) {
  const auto& [kind, point, ranks] = GetParam();
  const bool goes_on = kind == "slow" || kind == "late";
  testing::NetworkNamespaces hosts(std::chrono::milliseconds(kind == "late" ? 50 : 0));
  if (!hosts.are_usable())  // in CI, a skipped test is a failure: scripts/check_skips
    GTEST_SKIP() << "NOT RUN: two hosts are two network namespaces here, which need root and iproute2: "
                 << hosts.problem();
  fs::create_directory(folder_ / "checkpoints");
  fs::create_directory(folder_ / "tmp");
  const int faulty = point == "checkpoint" ? 0 : ranks - 1;
  const std::string mark = "tandem-two-" + std::to_string(getpid()) + kind + point + std::to_string(ranks);
  const std::map<std::string, std::string> variables = {{"OMP_NUM_THREADS", "1"},
                                                        {"TANDEM_TEST_MARK", mark},
                                                        {"TMPDIR", (folder_ / "tmp").string()},
                                                        {"TANDEM_STORE_TOKEN", "a secret of both"}};
  testing::RunningProcess first(command(hosts, 0, faulty), variables), second(command(hosts, 1, faulty), variables);
  ASSERT_TRUE(testing::eventually([&] { return fs::exists(folder_ / "mark"); })) << first.err() << second.err();

  if (kind == "partition") hosts.cut();
  if (kind == "one_way") hosts.cut_one_way();
  if (kind == "reset") hosts.reset();
  if (kind == "slow") hosts.slow_down("1mbit");
  if (kind == "kill" || kind == "stop") {
    const pid_t rank = process_of(faulty, mark);
    ASSERT_GT(rank, 1);
    ASSERT_EQ(kill(rank, kind == "kill" ? SIGKILL : SIGSTOP), 0);
  }
  if (kind == "lost_node") second.send(SIGKILL);
  if (kind == "lost_store") first.send(SIGKILL);
  EXPECT_TRUE(hosts.are_usable()) << hosts.problem();
  const auto start = std::chrono::steady_clock::now();
  fs::remove(folder_ / "mark");
  const int first_code = first.finish(std::chrono::seconds(60)), second_code = second.finish(std::chrono::seconds(60));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string said = first.err() + "\n--- and the other host ---\n" + second.err();
  std::printf("%s at %s of %d ranks: %.1f s\n", kind.c_str(), point.c_str(), ranks, seconds);

  EXPECT_LT(seconds, seconds_allowed) << said;
  if (goes_on) {
    EXPECT_EQ(first_code, 0) << said;
    EXPECT_EQ(second_code, 0) << said;
  } else {
    EXPECT_GT(first_code, 0) << said;
    EXPECT_GT(second_code, 0) << said;
  }
  const auto says = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in:\n" << said;
  };
  if (kind == "kill") {
    says(first.err(), "rank " + std::to_string(faulty) + " failed first: killed by SIGKILL");
    says(second.err(), "rank " + std::to_string(faulty) + " failed first: killed by SIGKILL");
  }
  if (kind == "stop") says(said, "rank " + std::to_string(faulty) + (point == "init" ? " of " : " ("));
  if (kind == "partition" || kind == "one_way" || kind == "lost_node") says(first.err(), "--node-rank 1");
  if (kind == "partition" || kind == "one_way" || kind == "lost_store") says(second.err(), "lost the node that serves");
  // The ranks of each host notice that the other host's ranks are gone.
  if (kind == "reset") says(said, "lost the node that serves");

  EXPECT_TRUE(testing::eventually([&] { return processes_with(mark).empty(); }, std::chrono::seconds(5)))
      << "left behind: " << processes_with(mark)[0];
  for (const auto& entry : fs::directory_iterator(folder_ / "tmp")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("tandem-flight-")) << "left behind: " << entry.path();
    EXPECT_FALSE(goes_on) << "left behind: " << entry.path();
  }
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
    EXPECT_NO_THROW(distributed::read_checkpoint(entry.path())) << entry.path();
  }
}

// The whole matrix takes five minutes, and tests/long/two_hosts runs it. Here, the network is lost at every point, and
// every other fault happens at two points.
std::vector<Fault> faults_of_two_hosts() {
  const bool all = std::getenv("TANDEM_WHOLE_MATRIX") != nullptr;
  std::vector<Fault> faults;
  for (const std::string kind :
       {"partition", "one_way", "reset", "slow", "late", "kill", "stop", "lost_node", "lost_store"}) {
    for (const std::string point : {"init", "construction", "backward", "bucket", "checkpoint", "barrier"}) {
      for (const int ranks : {2, 4}) {
        const bool is_short = ranks == 2 && (point == "bucket" || point == "checkpoint");
        if (all || kind == "partition" || is_short) faults.push_back({kind, point, ranks});
      }
    }
  }
  return faults;
}

INSTANTIATE_TEST_SUITE_P(All, TwoHosts, ::testing::ValuesIn(faults_of_two_hosts()), [](const auto& info) {
  return info.param.kind + "_at_" + info.param.point + "_of_" + std::to_string(info.param.ranks);
});

}  // namespace
}  // namespace tandem
