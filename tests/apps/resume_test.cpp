// A job that is stopped and resumed ends with the bits of one that was left in peace, also where the bits depend on
// what each rank alone has.
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using testing::expect_parts;
using testing::Outcome;
using testing::read_bytes;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

class Resume : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Outcome train(int ranks, const Words& arguments) const {
    Words command{TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", std::to_string(ranks),
                  TANDEM_PROGRAM_DIR "/resume_worker"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto outcome = testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }

  // Trains `steps` steps at once, and again with a stop after `stop` steps. What the second part says.
  std::string expect_same_bits(int ranks, int stop, int steps, const Words& arguments) const {
    const auto with = [&](Words more) {
      more.insert(more.end(), arguments.begin(), arguments.end());
      return more;
    };
    const auto all = std::to_string(steps);
    const Words checkpoints{"--checkpoint", path("checkpoints"), "--epochs", "9"};
    train(ranks, with({"--save", path("undisturbed.safetensors"), "--epochs", "9", "--max-steps", all}));
    auto first = checkpoints, second = checkpoints;
    first.insert(first.end(), {"--max-steps", std::to_string(stop)});
    second.insert(second.end(), {"--max-steps", all, "--resume", "--save", path("resumed.safetensors")});
    train(ranks, with(first));
    const auto outcome = train(ranks, with(second));
    expect_parts(outcome.err, {"resumed from", std::to_string(stop) + " step"});
    const auto expected = read_bytes(folder_ / "undisturbed.safetensors");
    EXPECT_TRUE(!expected.empty() && read_bytes(folder_ / "resumed.safetensors") == expected)
        << ranks << " ranks, stopped after " << stop << " of " << steps;
    return outcome.err;
  }

  TemporaryFolder folder_;
};

// Gloo's ring adds the gradients of three ranks in an order that depends on their place in the bucket.
TEST_F(Resume, has_the_same_buckets) { expect_same_bits(3, 5, 10, {"--backend", "gloo"}); }

TEST_F(Resume, with_other_ranks_leaves_the_buckets_out_and_says_so) {
  // 3 ranks take 8 steps an epoch.
  train(3, {"--checkpoint", path("checkpoints"), "--epochs", "1"});
  const auto outcome = train(2, {"--checkpoint", path("checkpoints"), "--epochs", "2", "--resume"});
  expect_parts(outcome.err, {"number of processes of 3, going on with 2", "the order of gradients in the checkpoint",
                             "another number of processes"});
}

}  // namespace
}  // namespace tandem
