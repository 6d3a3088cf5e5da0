// A job that is stopped and resumed ends with the same bits as an undisturbed job. This also holds for state that only
// one rank has.
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <filesystem>
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

  // Trains `steps` steps without a stop, and again with a stop after `stop` steps. Returns the output after the stop.
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

// Gloo's ring adds the gradients of three ranks in an order that depends on their position in the bucket.
TEST_F(Resume, has_the_same_buckets) { expect_same_bits(3, 5, 10, {"--backend", "gloo"}); }

// PowerSGD starts at the third step. Each rank stores what it has not sent yet.
TEST_F(Resume, has_what_powersgd_keeps) { expect_same_bits(2, 5, 10, {"--compress", "powersgd"}); }

// Two ranks take 12 steps per epoch. The stop is in the middle of an epoch, and then at its end.
TEST_F(Resume, has_the_random_numbers_of_each_rank) {
  expect_same_bits(2, 5, 10, {"--dropout", "0.5"});
  std::filesystem::remove_all(path("checkpoints"));
  expect_same_bits(2, 12, 15, {"--dropout", "0.5"});
}

TEST_F(Resume, has_all_of_these_at_once) {
  expect_same_bits(3, 5, 10, {"--backend", "gloo", "--compress", "powersgd", "--dropout", "0.5"});
}

TEST_F(Resume, with_other_ranks_leaves_out_what_is_bound_to_them_and_says_so) {
  const Words own{"--checkpoint", path("checkpoints"), "--compress", "powersgd", "--dropout", "0.5", "--epochs"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), own.begin(), own.end());
    return more;
  };
  train(3, with({"1"}));
  for (const int ranks : {2, 4}) {
    const auto outcome = train(ranks, with({std::to_string(ranks), "--resume"}));
    expect_parts(outcome.err, {" processes, continuing with " + std::to_string(ranks),
                               " processes wrote the checkpoint; ignored its order of gradients in the buckets",
                               "state of the communication hook", "random numbers of each rank"});
  }
  // Without these options, the output does not mention them.
  train(2, {"--checkpoint", path("plain"), "--epochs", "1"});
  const auto outcome = train(1, {"--checkpoint", path("plain"), "--epochs", "2", "--resume"});
  expect_parts(outcome.err, {"2 processes wrote the checkpoint; ignored its order of gradients in the buckets"});
  EXPECT_EQ(outcome.err.find("communication hook"), std::string::npos) << outcome.err;
}

TEST_F(Resume, without_the_hook_of_before_says_so) {
  train(2, {"--checkpoint", path("checkpoints"), "--epochs", "1", "--compress", "powersgd"});
  const auto outcome = train(2, {"--checkpoint", path("checkpoints"), "--epochs", "2", "--resume"});
  expect_parts(outcome.err, {"this run has no such communication hook and ignores the state"});
}

// The weights that PowerSGD compresses take 197 KiB, and every rank stores a second copy.
TEST_F(Resume, says_how_large_the_part_of_the_ranks_is) {
  const auto outcome = train(6, {"--checkpoint", path("checkpoints"), "--max-steps", "3", "--compress", "powersgd"});
  expect_parts(outcome.err, {"saved a checkpoint at step 3: 1.", " MiB of it belong to single ranks", "6 processes"});
}

// A limit on file sizes simulates a full disk: rank 0 fails while it receives the other ranks' state.
TEST_F(Resume, a_full_disk_is_named_and_leaves_no_partial_file) {
  const std::string script = "ulimit -f 1200; exec \"$@\"";
  const auto outcome =
      testing::run_process({"sh", "-c", script, "sh", TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", "3",
                            TANDEM_PROGRAM_DIR "/resume_worker", "--backend", "gloo", "--compress", "powersgd",
                            "--max-steps", "4", "--checkpoint", path("checkpoints")},
                           {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"rank 0 failed first", "cannot write", "checkpoint-0000-00000004.safetensors"});
  EXPECT_TRUE(std::filesystem::is_empty(path("checkpoints")));
}

}  // namespace
}  // namespace tandem
