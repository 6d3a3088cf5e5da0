// Random training runs must end with the same bits as undisturbed ones. A number chooses the run and the step after
// which it is killed. TANDEM_RESUME_CASES=N tries the numbers from 0 to N - 1.
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem {
namespace {

using testing::read_bytes;
using Words = std::vector<std::string>;

int cases() {
  const char* const number = std::getenv("TANDEM_RESUME_CASES");
  return number ? std::atoi(number) : 5;
}

class ResumeFuzz : public ::testing::TestWithParam<int> {};

TEST_P(ResumeFuzz, AKilledTrainingEndsWithTheBitsOfAnUndisturbedOne) {
  Generator choices(static_cast<std::uint64_t>(GetParam()) + 1000);
  const auto up_to = [&](std::uint64_t n) { return static_cast<int>(choices.next_u64() % n); };
  const int ranks = 1 + up_to(3), accumulate = 1 + up_to(3), batch_size = 2 + up_to(5);
  const int batches = ((70 + ranks - 1) / ranks + batch_size - 1) / batch_size;
  const int steps = 3 * ((batches + accumulate - 1) / accumulate);
  const int kill_at = 2 + up_to(static_cast<std::uint64_t>(steps - 2)), save_every = 1 + up_to(3),
            eval_every = 1 + up_to(4);
  const testing::TemporaryFolder folder;
  const auto path = [&](const std::string& name) { return (folder / name).string(); };
  const auto run = [&](const Words& more) {
    Words command{TANDEM_PROGRAM_DIR "/tandemrun",
                  "--nproc-per-node",
                  std::to_string(ranks),
                  TANDEM_PROGRAM_DIR "/random_training",
                  "--case",
                  std::to_string(GetParam()),
                  "--batch-size",
                  std::to_string(batch_size),
                  "--accumulate",
                  std::to_string(accumulate),
                  "--eval-every-steps",
                  std::to_string(eval_every),
                  "--backend",
                  ranks > 1 && up_to(2) == 1 ? "gloo" : "auto"};
    command.insert(command.end(), more.begin(), more.end());
    return testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
  };
  const Generator before = choices;  // copied so that all three runs use the same backend
  const auto undisturbed = run({"--save", path("undisturbed.safetensors")});
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
  choices = before;
  const auto killed = run({"--checkpoint", path("c"), "--save-every-steps", std::to_string(save_every), "--kill-at",
                           std::to_string(kill_at), "--kill-rank", std::to_string(GetParam() % ranks)});
  EXPECT_EQ(killed.code, 128 + 9) << killed.err;
  choices = before;
  const auto resumed = run({"--checkpoint", path("c"), "--resume", "--save", path("resumed.safetensors")});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (const std::string average : {"", ".average.safetensors"}) {
    const bool is_there = std::filesystem::exists(path("undisturbed.safetensors" + average));
    EXPECT_EQ(is_there, std::filesystem::exists(path("resumed.safetensors" + average)));
    if (!is_there) continue;
    EXPECT_TRUE(read_bytes(path("undisturbed.safetensors" + average)) ==
                read_bytes(path("resumed.safetensors" + average)))
        << average << ": " << ranks << " ranks, killed after step " << kill_at << " of " << steps << "\n"
        << resumed.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Case, ResumeFuzz, ::testing::Range(0, cases()));

}  // namespace
}  // namespace tandem
