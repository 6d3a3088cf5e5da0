// Every kind of failure at every point of a job: it ends in time, with an error, names the guilty rank, and leaves nothing.
#include <tandem/distributed/checkpoint.h>

#include <gtest/gtest.h>
#include <support/process.h>
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
       TANDEM_PROGRAM_DIR "/fault_worker", "--fault", kind, "--point", point, "--rank",
       std::to_string(faulty), "--checkpoint", (folder / "checkpoints").string(), "--timeout", "2"},
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
  for (const auto& entry : fs::directory_iterator(folder / "tmp"))
    ADD_FAILURE() << "left behind: " << entry.path();
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    EXPECT_NO_THROW(distributed::read_checkpoint(entry.path())) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultMatrix, ::testing::ValuesIn(all_faults()), [](const auto& info) {
  return info.param.kind + "_at_" + info.param.point + "_of_" + std::to_string(info.param.ranks);
});

}  // namespace
}  // namespace tandem
