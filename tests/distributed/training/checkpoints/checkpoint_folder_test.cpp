#include <gtest/gtest.h>
#include <support/saving_job.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::SavingJob;
using testing::TemporaryFolder;

// The state takes 50 MB: 6.25 million weights and as many moments. Without memory for a copy, the training waits for
// the disk.
TEST(CheckpointFolder, a_save_blocks_for_a_copy_and_not_for_the_disk) {
  const TemporaryFolder with, without;
  std::vector<double> copies, writes;
  testing::run_ranks(1, [&](Group group) {
    SavingJob job(group, with.path(), {}, 2500);
    SavingJob waits(group, without.path(), {.available_memory = [] { return 0; }}, 2500);
    const auto seconds_of_save = [](SavingJob& which) {
      which.train();
      const auto start = std::chrono::steady_clock::now();
      which.save();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      which.folder.finish();
      return seconds;
    };
    for (int i = 0; i < 5; ++i) {
      copies.push_back(seconds_of_save(job));
      writes.push_back(seconds_of_save(waits));
    }
  });
  const auto median = [](std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  const double copy = median(copies), write = median(writes);
  std::printf("a save blocks for %.1f ms, and for %.1f ms if it waits for the disk: %.1f times as long\n", 1e3 * copy,
              1e3 * write, write / copy);
  EXPECT_LT(copy, write);
}

}  // namespace
}  // namespace tandem::distributed
