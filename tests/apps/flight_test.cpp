// The flight records of real jobs. They remain if something fails, disappear otherwise, and say correctly which rank is
// behind.
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using testing::RunningProcess;
using testing::TemporaryFolder;

const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun", worker = TANDEM_PROGRAM_DIR "/fault_worker";

class Flight : public ::testing::Test {
 protected:
  Flight() {
    fs::create_directory(folder_ / "tmp");
    fs::create_directory(folder_ / "checkpoints");
  }
  std::vector<std::string> job(const std::string& kind, std::vector<std::string> launcher = {}) const {
    launcher.insert(launcher.begin(), {tandemrun, "--nproc-per-node", "3", "--grace", "1"});
    launcher.insert(launcher.end(),
                    {worker, "--fault", kind, "--point", "bucket", "--rank", "1", "--mark", (folder_ / "mark").string(),
                     "--checkpoint", (folder_ / "checkpoints").string(), "--timeout", "3"});
    return launcher;
  }
  std::map<std::string, std::string> variables() const {
    return {{"OMP_NUM_THREADS", "1"}, {"TMPDIR", (folder_ / "tmp").string()}};
  }
  // Returns the text after `before`, up to the end of its line.
  static std::string after(const std::string& text, const std::string& before) {
    const auto place = text.find(before);
    if (place == std::string::npos) return "";
    const auto begin = place + before.size();
    return text.substr(begin, text.find_first_of("\n;", begin) - begin);
  }
  static std::string explain(const std::string& folder) {
    const auto outcome = testing::run_process({tandemrun, "--explain", folder});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  std::vector<fs::path> temporary() const { return {fs::directory_iterator(folder_ / "tmp"), {}}; }

  const TemporaryFolder folder_;
};

TEST_F(Flight, a_failed_job_keeps_its_records_and_says_where) {
  for (const std::string kind : {"kill", "stop", "exception"}) {
    const auto outcome = testing::run_process(job(kind), variables());
    EXPECT_GT(outcome.code, 0);
    const auto folder = after(outcome.err, "to see what the ranks did last, run: " + tandemrun + " --explain ");
    ASSERT_TRUE(fs::is_directory(folder)) << outcome.err;
    const auto text = explain(folder);
    EXPECT_EQ(text.find("rank 1 ("), 0u) << text;
    EXPECT_NE(text.find("is behind"), std::string::npos) << text;
    EXPECT_NE(text.find("ranks 0 and 2 waited in number"), std::string::npos) << text;
    EXPECT_NE(text.find("gradient bucket"), std::string::npos) << text;
  }
  EXPECT_EQ(temporary().size(), 3u);
}

TEST_F(Flight, the_records_lie_in_the_log_folder) {
  const auto outcome =
      testing::run_process(job("kill", {"--log-dir", (folder_ / "logs").string(), "--rdzv-id", "night"}), variables());
  EXPECT_GT(outcome.code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "logs/night/attempt_0/flight/rank-1")) << outcome.err;
  EXPECT_EQ(explain((folder_ / "logs").string()).find("rank 1 ("), 0u);
  EXPECT_TRUE(temporary().empty());
}

TEST_F(Flight, a_job_that_goes_well_leaves_nothing) {
  const auto outcome = testing::run_process(job("none"), variables());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(temporary().empty());
}

TEST_F(Flight, sigusr2_keeps_a_copy_while_the_job_goes_on) {
  RunningProcess running(job("mark"), variables());
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "mark"); })) << running.err();
  // The other ranks are waiting in the bucket by now, or soon will be.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  running.send(SIGUSR2);
  ASSERT_TRUE(eventually([&] { return running.err().find("--explain") != std::string::npos; })) << running.err();
  const auto folder =
      after(running.err(), "copied the ranks' flight records. To read them: " + tandemrun + " --explain ");
  fs::remove(folder_ / "mark");
  EXPECT_EQ(running.finish(), 0) << running.err();
  const auto text = explain(folder);
  EXPECT_EQ(text.find("rank 1 ("), 0u) << text;
  EXPECT_NE(text.find("ranks 0 and 2 waited in number"), std::string::npos) << text;
}

// Another launcher starts the ranks, and each rank names its file.
TEST_F(Flight, without_our_launcher_each_rank_names_its_file) {
  for (const std::string kind : {"none", "kill"}) {
    auto command = job(kind);
    command.erase(command.begin(), command.begin() + 5);
    auto environment = variables();
    environment["MASTER_ADDR"] = "127.0.0.1";
    environment["MASTER_PORT"] = "29571";
    environment["WORLD_SIZE"] = "3";
    environment["TANDEM_STORE_TOKEN"] = "a secret";
    std::vector<std::unique_ptr<RunningProcess>> ranks;
    for (int r = 0; r < 3; ++r) {
      environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(r);
      ranks.push_back(std::make_unique<RunningProcess>(command, environment));
    }
    for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks[r]->finish(), kind == "none" ? 0 : r == 1 ? 128 + SIGKILL : 1);
    if (kind == "none") {
      EXPECT_TRUE(temporary().empty()) << temporary()[0];
      continue;
    }
    const auto said = ranks[0]->err();
    ASSERT_NE(said.find("rank 0 recorded its last operations in "), std::string::npos) << said;
    ASSERT_EQ(temporary().size(), 1u);
    const auto text = explain(temporary()[0].string());
    EXPECT_EQ(text.find("rank 1 ("), 0u) << text;
    EXPECT_TRUE(fs::exists(temporary()[0] / "rank-1"));
  }
}

}  // namespace
}  // namespace tandem
