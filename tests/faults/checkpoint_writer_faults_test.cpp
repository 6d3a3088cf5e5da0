// Checkpoints that a thread writes, on disks that fail and hang. All ranks learn of it, and resume finds a checkpoint.
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/training/trainer.h>

#include <gtest/gtest.h>
#include <support/running_process.h>
#include <support/sanitizers.h>
#include <support/saving_job.h>
#include <support/small_training.h>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "faults.h"

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::expect_parts;
using testing::Group;
using testing::message_of;
using testing::read_bytes;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::SavingJob;
using testing::TemporaryFolder;
using testing::Watching;

// Without memory for a copy, the training waits for the disk.
const CheckpointFolderOptions blocking{.available_memory = [] { return std::int64_t{0}; }};

// The checkpoint is compared with one for which the training has waited.
TEST(CheckpointWriterFaults, the_state_is_that_of_its_step) {
  for (const int ranks : {1, 2, 3}) {
    const TemporaryFolder with, without;
    const Watching watching(with.path());
    run_ranks(ranks, [&](Group group) {
      SavingJob waits(group, without.path(), blocking);
      for (int i = 0; i < 3; ++i) waits.train();
      waits.save();
      EXPECT_TRUE(waits.has(3));
      EXPECT_TRUE(waits.folder.finish());
    });
    run_ranks(ranks, [&](Group group) {
      SavingJob job(group, with.path());
      if (group->rank() == 0) faulty_files_hold(true);
      for (int i = 0; i < 3; ++i) job.train();
      job.save();
      for (int i = 0; i < 20; ++i) job.train();
      default_generator().next_u64();
      EXPECT_FALSE(job.has(3));
      EXPECT_EQ(job.folder.is_writing(), group->rank() == 0);
      group->barrier()->wait();
      faulty_files_hold(false);
      EXPECT_TRUE(job.folder.finish());
      EXPECT_FALSE(job.folder.finish());
      EXPECT_TRUE(job.has(3));
      EXPECT_EQ(job.notes, std::vector<std::string>());
    });
    const auto expected = read_bytes(without / "checkpoint-0000-00000003.safetensors");
    EXPECT_GT(expected.size(), 1000u);
    EXPECT_EQ(read_bytes(with / "checkpoint-0000-00000003.safetensors"), expected) << ranks;
  }
}

// The second save waits until the first checkpoint is durable. The older checkpoint stays until then.
TEST(CheckpointWriterFaults, at_most_one_is_being_written) {
  const TemporaryFolder folder;
  const Watching watching(folder.path());
  run_ranks(2, [&](Group group) {
    SavingJob job(group, folder.path());
    job.options.keep_last = 1;
    job.save();
    job.folder.finish();
    if (group->rank() == 0) faulty_files_hold(true);
    group->barrier()->wait();
    job.train();
    job.save();
    EXPECT_TRUE(eventually([] { return faulty_files_held() == 1; }));
    EXPECT_TRUE(job.has(0));
    EXPECT_FALSE(job.has(1));
    const std::jthread releases([] {
      std::this_thread::sleep_for(100ms);
      faulty_files_hold(false);
    });
    job.train();
    const auto start = std::chrono::steady_clock::now();
    job.save();
    EXPECT_GT(std::chrono::steady_clock::now() - start, 50ms);
    EXPECT_TRUE(job.has(1) || job.has(2));
    job.folder.finish();
    EXPECT_FALSE(job.has(0) || job.has(1));
    EXPECT_TRUE(job.has(2));
  });
}

// Each system call of the second save fails in each way. All ranks get the error, or there was none and the checkpoint
// is there.
TEST(CheckpointWriterFaults, each_failed_call_reaches_all_ranks) {
  long calls = 0;
  const auto run = [&](const TemporaryFolder& folder, long call, const testing::Way& way) {
    const Watching watching(folder.path());
    return run_ranks_catching(2, [&](Group group) {
      SavingJob job(group, folder.path());
      job.train();
      job.save();
      job.folder.finish();
      const long before = faulty_files_calls();
      group->barrier()->wait();
      if (group->rank() == 0 && call > 0) faulty_files_fail(before + call, way.error, way.lasts);
      job.train();
      job.save();
      job.train();
      job.folder.finish();
      if (group->rank() == 0) calls = faulty_files_calls() - before;
    });
  };
  {
    const TemporaryFolder folder;
    EXPECT_EQ(message_of(run(folder, 0, {})[0]), "");
  }
  const long all = calls;
  EXPECT_GT(all, 7);
  std::size_t errors = 0;
  for (const auto& way : testing::all_ways) {
    for (long call = 1; call <= all; ++call) {
      SCOPED_TRACE(testing::text_of(call, way));
      const TemporaryFolder folder;
      const auto results = run(folder, call, way);
      const auto newest = find_checkpoint(folder.path(), "saving_job", [](const std::string&) {});
      ASSERT_TRUE(newest);
      const auto text = message_of(results[0]);
      if (text.empty()) {
        EXPECT_EQ(message_of(results[1]), "");
        EXPECT_EQ(read_checkpoint(*newest).step, 2);
        continue;
      }
      ++errors;
      EXPECT_GE(read_checkpoint(*newest).step, 1);
      expect_parts(text, {folder.path().string()});
      EXPECT_EQ(message_of(results[1]), "rank 0 failed: " + text);
      EXPECT_TRUE(testing::is_peer_error(results[1]));
    }
  }
  EXPECT_GT(errors, 20u);
}

// The folder belongs to another job when the thread begins to write. The older checkpoint stays.
TEST(CheckpointWriterFaults, a_lock_that_another_job_has_taken_over_reaches_all_ranks) {
  const TemporaryFolder folder;
  LockOwner other;
  other.host = "elsewhere";
  other.pid = 7;
  const auto errors = run_ranks_catching(2, [&](Group group) {
    SavingJob job(group, folder.path());
    job.options.keep_last = 1;
    job.train();
    job.save();
    job.folder.finish();
    if (group->rank() == 0) testing::write_bytes(folder / "checkpoint.lock", other.text());
    job.train();
    job.save();
    job.train();
    job.folder.finish();
  });
  expect_parts(message_of(errors[0]), {"another job has taken over the checkpoints in " + folder.path().string(),
                                       "process 7 on host elsewhere"});
  EXPECT_EQ(message_of(errors[1]), "rank 0 failed: " + message_of(errors[0]));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"checkpoint-0000-00000001.safetensors", "checkpoint.lock"}));
}

// A training with a checkpoint after every 100 steps.
struct Training {
  std::int64_t ranks = 2;
  std::int64_t max_steps = 1000;
  std::string keep_best{};
  std::function<void(std::int64_t step)> act = [](std::int64_t) {};  // rank 0 calls it after each step

  const TemporaryFolder folder{};
  std::vector<std::exception_ptr> errors{};
  std::vector<std::int64_t> steps{0, 0};  // of each rank

  void run() {
    const Watching watching(folder.path());
    errors = run_ranks_catching(static_cast<int>(ranks), [&](Group group) {
      testing::SavingOptions options(folder.path());
      options.quiet = true;
      options.epochs = 1000;
      options.batch_size = 4;
      options.max_steps = max_steps;
      options.save_every_steps = 100;
      options.save_every = 1000;
      options.keep_best = keep_best;
      options.eval_every = 1000;
      options.eval_every_steps = 100;
      manual_seed(3);
      auto model = testing::plain_network();
      Trainer trainer(options, group, model);
      optim::SGD optimizer(model.parameters(), {.lr = 0.01});
      trainer.use(optimizer);
      trainer.after_step([&] {
        steps[static_cast<std::size_t>(group->rank())] = trainer.steps();
        if (group->rank() == 0) act(trainer.steps());
        std::this_thread::sleep_for(2ms);
      });
      data::Loader loader(testing::fifty_samples(), options.loader_options(*group));
      trainer.fit(
          loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
          [&] {
            return std::vector<Metric>{{"steps", static_cast<double>(trainer.steps())}};
          });
    });
  }
  std::filesystem::path newest() const {
    return find_checkpoint(folder.path(), "saving_job", [](const std::string&) {}).value();
  }
};

void fill_disk() { faulty_files_fail(faulty_files_calls() + 1, ENOSPC, true); }

// The disk continues after a while.
std::jthread release_soon() {
  return std::jthread([] {
    std::this_thread::sleep_for(100ms);
    faulty_files_hold(false);
  });
}

// The ranks learn of it when they next ask each other whether to stop, long before the next save.
TEST(CheckpointWriterFaults, a_full_disk_ends_the_training_at_a_step) {
  Training training{.act = [](std::int64_t step) {
    if (step == 99) fill_disk();
  }};
  training.run();
  expect_parts(message_of(training.errors[0]), {"cannot write", "-00000100.safetensors", "No space left on device"});
  EXPECT_EQ(message_of(training.errors[1]), "rank 0 failed: " + message_of(training.errors[0]));
  EXPECT_EQ(training.steps[0], training.steps[1]);
  EXPECT_LT(training.steps[0], 199);
}

TEST(CheckpointWriterFaults, a_full_disk_at_the_end_is_an_error) {
  Training training{.max_steps = 100, .act = [](std::int64_t step) {
                      if (step == 99) fill_disk();
                    }};
  training.run();
  expect_parts(message_of(training.errors[0]), {"cannot write", "-00000100.safetensors", "No space left on device"});
  EXPECT_EQ(message_of(training.errors[1]), "rank 0 failed: " + message_of(training.errors[0]));
}

// A stop waits for the checkpoint that is being written, and then for its own.
TEST(CheckpointWriterFaults, a_signal_waits_for_both_checkpoints) {
  std::jthread releases;
  Training training{.ranks = 1, .act = [&](std::int64_t step) {
                      if (step == 99) faulty_files_hold(true);
                      if (step != 110) return;
                      EXPECT_TRUE(eventually([] { return faulty_files_held() == 1; }));
                      releases = release_soon();
                      std::raise(SIGTERM);
                    }};
  training.run();
  EXPECT_EQ(message_of(training.errors[0]), "stopped by a signal");
  EXPECT_EQ(training.steps[0], 110);
  EXPECT_EQ(read_checkpoint(training.newest()).step, 110);
  EXPECT_EQ(training.folder.names().size(), 2u);
}

// Without its checkpoint, a job that was stopped has failed.
TEST(CheckpointWriterFaults, a_full_disk_at_a_stop_is_an_error) {
  Training training{.ranks = 1, .act = [](std::int64_t step) {
                      if (step != 150) return;
                      fill_disk();
                      std::raise(SIGTERM);
                    }};
  training.run();
  expect_parts(message_of(training.errors[0]), {"cannot write", "-00000150.safetensors", "No space left on device"});
  EXPECT_EQ(read_checkpoint(training.newest()).step, 100);
}

// The end of an epoch, at step 104, checks the best checkpoint, which is still being written. That one must not lose
// its place.
TEST(CheckpointWriterFaults, the_best_checkpoint_is_awaited_before_it_is_checked) {
  std::jthread releases;
  Training training{.ranks = 1, .max_steps = 201, .keep_best = "min:steps", .act = [&](std::int64_t step) {
                      if (step == 99) faulty_files_hold(true);
                      if (step == 104) releases = release_soon();
                    }};
  training.run();
  EXPECT_EQ(message_of(training.errors[0]), "");
  EXPECT_EQ(read_checkpoint(training.folder / "best.safetensors").step, 100);
  EXPECT_EQ(read_checkpoint(training.newest()).step, 201);
}

// The training's own error comes first, and the checkpoint is there when the job ends.
TEST(CheckpointWriterFaults, an_error_of_the_program_loses_no_checkpoint) {
  std::jthread releases;
  Training training{.ranks = 1, .act = [&](std::int64_t step) {
                      if (step == 99) faulty_files_hold(true);
                      if (step != 110) return;
                      releases = release_soon();
                      throw Error("the program's own error");
                    }};
  training.run();
  EXPECT_EQ(message_of(training.errors[0]), "the program's own error");
  EXPECT_EQ(read_checkpoint(training.newest()).step, 100);
}

// The thread is abandoned, and still writes the checkpoint when the disk comes back. It holds the lock until then.
TEST(CheckpointWriterFaults, a_disk_that_hangs_ends_the_job) {
  const TemporaryFolder folder;
  const Watching watching(folder.path());
  const auto errors = run_ranks_catching(2, [&](Group group) {
    SavingJob job(group, folder.path(), {.longest = 300ms});
    if (group->rank() == 0) faulty_files_hold(true);
    job.train();
    job.save();
    job.train();
    EXPECT_TRUE(eventually([&] { return !job.folder.is_writing(); }));  // the writer has failed
    job.folder.finish();
  });
  const auto file = folder / "checkpoint-0000-00000001.safetensors";
  expect_parts(message_of(errors[0]), {"cannot write " + file.string(), "the disk has not finished it within 0.3 s"});
  EXPECT_EQ(message_of(errors[1]), "rank 0 failed: " + message_of(errors[0]));
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoint.lock"));
  EXPECT_FALSE(std::filesystem::exists(file));
  faulty_files_hold(false);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(folder / "checkpoint.lock"); }));
  EXPECT_EQ(read_checkpoint(file).step, 1);
}

// The training has ended with another error, or the program has left its loop.
TEST(CheckpointWriterFaults, a_folder_that_is_destroyed_waits) {
  for (const bool is_full : {false, true}) {
    const TemporaryFolder folder;
    const Watching watching(folder.path());
    std::vector<std::string> notes;
    run_ranks(1, [&](Group group) {
      testing::SavingOptions options(folder.path());
      nn::Linear model(3, 3);
      DistributedDataParallel ddp(model, group);
      optim::GradScaler scaler({.enabled = false});
      JobState job(*group, ddp, scaler);
      std::jthread releases;
      CheckpointFolder checkpoints(options, *group, job, [&](const std::string& line) { notes.push_back(line); });
      checkpoints.open();
      faulty_files_hold(true);
      TrainingState state;
      state.generator = default_generator().state();
      checkpoints.save(std::move(state), ops::scalar(0), -1);
      EXPECT_TRUE(eventually([] { return faulty_files_held() == 1; }));
      if (is_full) faulty_files_fail(faulty_files_calls() + 1, ENOSPC, true);
      releases = std::jthread([] {
        std::this_thread::sleep_for(100ms);
        faulty_files_hold(false);
      });
    });
    EXPECT_EQ(std::filesystem::exists(folder / "checkpoint-0000-00000000.safetensors"), !is_full);
    ASSERT_EQ(notes.size(), is_full ? 2u : 1u);
    EXPECT_EQ(notes[0], "note: waiting for the last checkpoint, which is still being written");
    if (is_full) expect_parts(notes[1], {"WARNING: cannot write", "No space left on device"});
  }
}

// The copy may take half of the available memory.
TEST(CheckpointWriterFaults, without_memory_for_a_copy_the_training_waits_and_says_so_once) {
  for (const int missing : {1, 0}) {
    const TemporaryFolder folder;
    run_ranks(2, [&](Group group) {
      std::int64_t available = 0;
      SavingJob job(group, folder.path(), {.available_memory = [&] { return available; }});
      job.train();
      PendingCheckpoint same;
      job.job.fill(same.state);
      same.of_ranks = std::make_unique<RankArrays>(*group, job.job.of_rank(default_generator().state(), ""));
      available = 2 * static_cast<std::int64_t>(same.bytes()) - missing;
      for (int i = 1; i <= 2; ++i) {
        job.save();
        if (missing) {
          EXPECT_TRUE(job.has(i));
        }
        job.train();
      }
      job.folder.finish();
      const bool says = missing && group->rank() == 0;
      ASSERT_EQ(job.notes.size(), says ? 1u : 0u);
      if (says)
        expect_parts(job.notes[0],
                     {"note: the training waits while checkpoints are written: a copy of the state takes ",
                      " MiB, and 0.0 MiB of memory are available"});
    });
  }
}

// The allocator keeps the memory of a copy for the next copy, unless another use needs it.
TEST(CheckpointWriterFaults, memory_for_the_next_copy_may_be_gone) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Group group) {
    std::int64_t available = 1 << 30;
    SavingJob job(group, folder.path(), {.available_memory = [&] { return available; }});
    const Array large = ops::zeros({1 << 20});
    job.job.keep({"large", [&] { return std::vector<NamedArray>{{"array", large}}; }, [](const auto&) {}});
    for (int i = 0; i < 3; ++i) {
      job.train();
      if (i == 2) empty_cache();
      job.save();
      job.folder.finish();
      available = 0;
      EXPECT_EQ(job.notes.size(), i == 2 ? 1u : 0u);
    }
  });
}

// The system has less memory than it says, and the first copy has succeeded. (The arrays are larger than the heaps of
// 64 MiB that the C library reserves.)
TEST(CheckpointWriterFaults, a_copy_that_fails_halfway_loses_nothing) {
  if (testing::sanitizer_factor > 1) return;  // a sanitizer needs address space of its own
  const TemporaryFolder with, without;
  const auto save = [](const TemporaryFolder& folder, const CheckpointFolderOptions& writing) {
    std::vector<std::string> notes;
    run_ranks(1, [&](Group group) {
      SavingJob job(group, folder.path(), writing, 4200);  // two arrays of 71 MB
      job.train();
      job.save();
      job.folder.finish();
      notes = job.notes;
    });
    return notes;
  };
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const auto leave_100_mb = [&]() -> std::optional<std::int64_t> {
    empty_cache();
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 100'000'000, before.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
    return std::nullopt;
  };
  const auto notes = save(with, {.available_memory = leave_100_mb});
  setrlimit(RLIMIT_AS, &before);
  ASSERT_EQ(notes.size(), 1u);
  expect_parts(notes[0], {"note: the training waits while checkpoints are written: out of memory: 70560000 bytes"});
  EXPECT_EQ(save(without, blocking).size(), 1u);
  const auto name = "checkpoint-0000-00000001.safetensors";
  EXPECT_TRUE(read_bytes(with / name) == read_bytes(without / name));
}

}  // namespace
}  // namespace tandem::distributed
