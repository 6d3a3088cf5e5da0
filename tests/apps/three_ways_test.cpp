// The program of docs/trainer.md, used in the ways that the page shows.
#include <gtest/gtest.h>
#include <support/running_process.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

namespace tandem::testing {
namespace {

const std::string program = TANDEM_PROGRAM_DIR "/examples/three_ways";

std::vector<std::string> job(int processes, const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> command = {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", std::to_string(processes),
                                      program};
  command.insert(command.end(), {"--way", "fit", "--epochs", "1000000", "--checkpoint", folder, "--save-every",
                                 "1000000", "--save-every-steps", "7", "--keep-best", "max:accuracy"});
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// An epoch has 50 steps on two processes, so a checkpoint after every 7 steps is usually in the middle of an epoch.
TEST(ThreeWays, AKilledJobGoesOnWithAnyNumberOfProcesses) {
  const TemporaryFolder folder;
  const std::string checkpoints = (folder / "run1").string();
  const auto newest = [&] {
    int step = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints, error)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with("checkpoint-") && name.ends_with(".safetensors"))
        step = std::max(step, std::stoi(name.substr(name.rfind('-') + 1)));
    }
    return step;
  };
  RunningProcess running(job(2, checkpoints, {}), {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(eventually([&] { return newest() > 60; })) << running.err();
  running.send(SIGKILL);
  EXPECT_EQ(running.finish(), 128 + SIGKILL);
  for (const auto& [processes, patience] : {std::pair(3, "3"), {1, "6"}}) {
    const int before = newest();
    const auto outcome =
        run_process(job(processes, checkpoints, {"--resume", "--patience", patience}), {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_parts(outcome.err, {"continuing with " + std::to_string(processes), "resumed from " + checkpoints,
                               " done, " + std::to_string(before) + " steps in all",
                               std::string(patience) + " evaluations without a better max:accuracy"});
    EXPECT_GT(newest(), before);
    EXPECT_TRUE(std::filesystem::exists(folder / "run1/best.safetensors"));
  }
}

TEST(ThreeWays, ThePageShowsWhatIsCompiled) {
  const std::string code = read_bytes(TANDEM_SOURCE_DIR "/apps/examples/three_ways.cpp");
  const std::string page = read_bytes(TANDEM_SOURCE_DIR "/docs/trainer.md"), fence = "```cpp\n";
  int blocks = 0;
  for (auto begin = page.find(fence); begin != std::string::npos; begin = page.find(fence, begin + 1), ++blocks) {
    const auto first = begin + fence.size();
    const auto block = page.substr(first, page.find("```", first) - first);
    EXPECT_NE(code.find(block), std::string::npos) << block;
  }
  EXPECT_EQ(blocks, 5);
}

}  // namespace
}  // namespace tandem::testing
