// Checkpoints in shards, on disks that fail and hang, and under jobs whose ranks are killed while they write. All ranks
// learn of it, and resume finds a checkpoint.
#include <tandem/distributed/training/checkpoints/checkpoint.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/mnist_ddp_fixture.h>
#include <support/running_process.h>
#include <support/saving_job.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "faults.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::eventually;
using testing::expect_parts;
using testing::Group;
using testing::message_of;
using testing::MnistDdp;
using testing::read_bytes;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::SavingJob;
using testing::TemporaryFolder;
using testing::Watching;

int shards_in(const fs::path& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    count += entry.path().filename().string().find("-of-") != std::string::npos;
  return count;
}

// The index comes last: no rank returns from save() before it has its copy, and the checkpoint becomes valid when all
// of them have written.
TEST(CheckpointShardsFaults, are_written_while_the_training_goes_on) {
  const TemporaryFolder folder;
  const Watching watching(folder.path());
  run_ranks(3, [&](Group group) {
    SavingJob job(group, folder.path(), {}, 8, true, true);
    group->barrier()->wait();
    if (group->rank() == 0) faulty_files_hold(true);
    group->barrier()->wait();
    for (int i = 0; i < 3; ++i) job.train();
    job.save();
    for (int i = 0; i < 20; ++i) job.train();
    EXPECT_TRUE(job.folder.is_writing());
    EXPECT_TRUE(eventually([] { return faulty_files_held() == 3; }));
    EXPECT_EQ(shards_in(folder.path()), 0);
    group->barrier()->wait();
    faulty_files_hold(false);
    EXPECT_TRUE(eventually([&] { return !job.folder.is_writing(); }));
    group->barrier()->wait();
    EXPECT_EQ(shards_in(folder.path()), 3);
    EXPECT_FALSE(job.has(3));
    group->barrier()->wait();
    EXPECT_TRUE(job.folder.finish());
    EXPECT_TRUE(job.has(3));
    EXPECT_FALSE(job.folder.finish());
    auto saved = read_checkpoint(job.file(3), group->rank(), Unwanted::left, job.job.share());
    EXPECT_EQ(saved.step, 3);
    job.job.restore(saved, [](const std::string& line) { ADD_FAILURE() << line; });
    SavingJob again(group, (folder / std::to_string(group->rank())), {}, 8, true);
    for (int i = 0; i < 3; ++i) again.train();
    testing::expect_same(again.model.parameters()[0].tensor.value(), job.model.parameters()[0].tensor.value(),
                         "weights");
    const auto expected = again.optimizer.state_dict(), found = job.optimizer.state_dict();
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      testing::expect_same(expected[i].array, found[i].array, expected[i].name);
  });
}

// Each system call of the second save fails in each way, on whichever rank makes it. All ranks get the error, or there
// was none and the checkpoint is there.
TEST(CheckpointShardsFaults, each_failed_call_reaches_all_ranks) {
  long calls = 0;
  const auto run = [&](const TemporaryFolder& folder, long call, const testing::Way& way, bool waits) {
    const Watching watching(folder.path());
    CheckpointFolderOptions writing;
    if (waits) writing.available_memory = [] { return 0; };
    return run_ranks_catching(2, [&](Group group) {
      SavingJob job(group, folder.path(), writing, 8, true, true);
      job.train();
      job.save();
      job.folder.finish();
      const long before = faulty_files_calls();
      group->barrier()->wait();
      if (group->rank() == 0 && call > 0) faulty_files_fail(before + call, way.error, way.lasts);
      group->barrier()->wait();
      job.train();
      job.save();
      job.train();
      job.folder.finish();
      if (group->rank() == 0) calls = faulty_files_calls() - before;
    });
  };
  {
    const TemporaryFolder folder;
    EXPECT_EQ(message_of(run(folder, 0, {}, false)[0]), "");
  }
  const long all = calls;
  EXPECT_GT(all, 20);
  std::size_t errors = 0;
  for (const auto& way : testing::all_ways) {
    for (long call = 1; call <= all; ++call) {
      SCOPED_TRACE(testing::text_of(call, way));
      const TemporaryFolder folder;
      const auto results = run(folder, call, way, call % 4 == 0);
      faulty_files_fail(0, 0, false);
      const auto newest = find_checkpoint(folder.path(), "saving_job", [](const std::string&) {});
      ASSERT_TRUE(newest);
      const auto texts = std::array{message_of(results[0]), message_of(results[1])};
      ASSERT_EQ(texts[0].empty(), texts[1].empty()) << texts[0] << texts[1];
      if (texts[0].empty()) {
        EXPECT_EQ(read_checkpoint(*newest).step, 2);
        continue;
      }
      ++errors;
      EXPECT_GE(read_checkpoint(*newest).step, 1);
      const bool is_of_0 = !testing::is_peer_error(results[0]);
      expect_parts(texts[is_of_0 ? 0 : 1], {folder.path().string()});
      EXPECT_EQ(texts[is_of_0 ? 1 : 0], (is_of_0 ? "rank 0 failed: " : "rank 1 failed: ") + texts[is_of_0 ? 0 : 1]);
    }
  }
  EXPECT_GT(errors, 60u);
}

// The disk becomes full while a step is saved again. The first checkpoint of the step stays as it is.
TEST(CheckpointShardsFaults, a_second_save_of_a_step_spares_the_first) {
  int errors = 0;
  for (long call = 1; call < 40; call += 2) {
    const TemporaryFolder folder;
    const Watching watching(folder.path());
    TrainingState first;
    std::string index;
    const auto results = run_ranks_catching(2, [&](Group group) {
      SavingJob job(group, folder.path(), {}, 8, true, true);
      job.train();
      job.save();
      job.folder.finish();
      if (group->rank() == 0) {
        first = read_checkpoint(job.file(1));
        index = read_bytes(job.file(1));
        faulty_files_fail(faulty_files_calls() + call, ENOSPC, true);
      }
      job.train();
      job.step = 1;
      job.save();
      job.folder.finish();
    });
    faulty_files_fail(0, 0, false);
    errors += !message_of(results[0]).empty();
    std::string warnings;
    const auto newest =
        find_checkpoint(folder.path(), "saving_job", [&](const std::string& line) { warnings += line; });
    ASSERT_TRUE(newest);
    EXPECT_EQ(warnings, "");
    const auto found = read_checkpoint(*newest);
    EXPECT_EQ(found.step, 1);
    if (read_bytes(*newest) != index) continue;  // the error came after the new index
    ASSERT_EQ(found.optimizer.size(), first.optimizer.size());
    for (std::size_t i = 0; i < found.optimizer.size(); ++i)
      testing::expect_same(first.optimizer[i].array, found.optimizer[i].array, found.optimizer[i].name);
  }
  EXPECT_GT(errors, 5);
}

// The training has ended with another error, or the program has left its loop. If all shards are there, rank 0 still
// writes the index.
TEST(CheckpointShardsFaults, a_folder_that_is_destroyed_keeps_what_is_complete) {
  for (const bool is_complete : {true, false}) {
    const TemporaryFolder folder;
    std::vector<std::string> notes;
    run_ranks(2, [&](Group group) {
      {
        SavingJob job(group, folder.path(), {}, 8, true, true);
        job.train();
        job.save();
        EXPECT_TRUE(eventually([&] { return !job.folder.is_writing(); }));
        group->barrier()->wait();
        if (!is_complete && group->rank() == 1)
          for (const auto& entry : fs::directory_iterator(folder.path()))
            if (entry.path().string().find("-00002-of-") != std::string::npos) fs::remove(entry.path());
        group->barrier()->wait();
      }
      group->barrier()->wait();
    });
    EXPECT_EQ(has_checkpoints(folder.path()), is_complete);
  }
}

TEST(CheckpointShardsFaults, a_rank_that_cannot_use_the_folder_ends_the_job_before_the_training) {
  const TemporaryFolder folder;
  const auto errors = run_ranks_catching(2, [&](Group group) {
    SavingJob job(group, group->rank() == 0 ? folder.path() : folder / "elsewhere", {}, 8, true, true);
  });
  expect_parts(message_of(errors[1]), {"rank 0 has created the folder", "elsewhere", "rank 1 does not see it"});
  EXPECT_EQ(message_of(errors[0]), "rank 1 failed: " + message_of(errors[1]));
}

// ---- Processes

class ShardsOfAProgram : public MnistDdp {
 protected:
  std::vector<std::string> arguments(std::vector<std::string> more, const std::string& strategy = "zero1") const {
    more.insert(more.end(), {"--strategy", strategy, "--lr", "0.05", "--momentum", "0.9", "--epochs", "9"});
    return with_data(more);
  }
  // Runs two processes. The launcher itself must not have the library, whose lock its signal handler would wait for.
  testing::Outcome run(const std::vector<std::string>& more, int rank = 0, const std::string& what = "FAULTY_KILL",
                       long call = 0) const {
    std::vector<std::string> command{testing::tandemrun,
                                     "--nproc-per-node",
                                     "2",
                                     "/usr/bin/env",
                                     "LD_PRELOAD=" TANDEM_PROGRAM_DIR "/faulty_files.so",
                                     "ASAN_OPTIONS=verify_asan_link_order=0",
                                     "OMP_NUM_THREADS=1",
                                     "FAULTY_FILES=" + path("c"),
                                     "FAULTY_RANK=" + std::to_string(rank),
                                     what + "=" + std::to_string(call),
                                     testing::mnist_ddp};
    command.insert(command.end(), more.begin(), more.end());
    return testing::run_process(command);
  }
};

// A rank is killed before each of its system calls on the folder, from the beginning of the job to the end of its
// second save. Then the job resumes from what is there, and ends with the bits of an undisturbed one.
TEST_F(ShardsOfAProgram, a_rank_is_killed_at_each_phase) {
  const std::vector<std::string> in_shards{"--checkpoint", path("c"), "--checkpoint-shards", "--save-every-steps", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), in_shards.begin(), in_shards.end());
    return arguments(more);
  };
  auto outcome = run(arguments({"--max-steps", "4", "--save", path("undisturbed.safetensors")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int killed = 0, from[3] = {};
  for (const int rank : {0, 1}) {
    for (long call = 1;; call += testing::tries_all() ? 1 : 7) {
      SCOPED_TRACE("rank " + std::to_string(rank) + " is killed before call " + std::to_string(call));
      fs::remove_all(path("c"));
      outcome = run(with({"--max-steps", "2"}), rank, "FAULTY_KILL", call);
      if (outcome.code == 0) break;
      EXPECT_EQ(outcome.code, 128 + 9) << outcome.err;
      ++killed;
      outcome = run(with({"--resume", "--max-steps", "4", "--save", path("resumed.safetensors")}));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(outcome.err.find("warning: skipped"), std::string::npos) << outcome.err;
      const bool found = outcome.err.find("resumed from") != std::string::npos;
      ++from[!found ? 0 : outcome.err.find("1 step in all") != std::string::npos ? 1 : 2];
      EXPECT_TRUE(read_bytes(path("resumed.safetensors")) == read_bytes(path("undisturbed.safetensors")));
      EXPECT_EQ(shards_in(path("c")), 6);  // of three checkpoints, and of no interrupted save
    }
  }
  std::cout << "killed " << killed << " times, resumed from the beginning, step 1 and step 2: " << from[0] << ", "
            << from[1] << ", " << from[2] << "\n";
  EXPECT_GT(killed, 15);
  EXPECT_TRUE(from[0] > 0 && from[1] > 0) << from[0] << " " << from[1];
}

// The disk of one rank becomes full after some saves. The older checkpoints stay, and the job resumes from them.
TEST_F(ShardsOfAProgram, a_full_disk_of_any_rank_ends_the_job) {
  for (const int rank : {0, 1}) {
    fs::remove_all(path("c"));
    std::vector<std::string> more{"--checkpoint", path("c"), "--checkpoint-shards", "--save-every-steps", "1",
                                  "--max-steps",  "10"};
    auto outcome = run(arguments(more), rank, "FAULTY_FULL", 120);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    expect_parts(outcome.err, {"[rank" + std::to_string(rank) + "]: cannot write", "No space left on device"});
    EXPECT_TRUE(has_checkpoints(path("c")));
    more.insert(more.end(), "--resume");
    outcome = run(arguments(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_parts(outcome.err, {"resumed from"});
    EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << outcome.err;
    EXPECT_EQ(shards_in(path("c")), 6);
  }
}

}  // namespace
}  // namespace tandem::distributed
