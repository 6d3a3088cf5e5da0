#include <tandem/distributed/launch/log_folder.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

// A job that restarts for days must not fill the disk with flight records.
TEST(LogFolder, KeepsTheRecordsOfTheLastFailures) {
  for (const bool is_temporary : {true, false}) {
    const testing::TemporaryFolder folder;
    const std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
    setenv("TMPDIR", folder.path().c_str(), 1);
    const auto count = [&] {
      int records = 0;
      for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
        records += entry.path().filename() == "rank-0";
      return records;
    };
    {
      LogFolder logs(is_temporary ? "" : folder.path().string(), "run", false);
      for (int generation = 0; generation < 20; ++generation) {
        testing::write_bytes(logs.flight(generation) / "rank-0", "record");
        if (generation % 2 == 0) {
          EXPECT_TRUE(fs::exists(logs.keep_flight() / "rank-0"));
        }
        if (is_temporary) {
          EXPECT_LE(count(), 9);
        }
      }
    }
    EXPECT_EQ(count(), is_temporary ? 8 : 18);
    before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  }
}

TEST(LogFolder, NamesATmpdirThatIsNoFolder) {
  const std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  setenv("TMPDIR", "/scratch/job.4711", 1);
  testing::expect_parts(testing::error_of([] { const LogFolder logs("", "run", false); }),
                        {"TMPDIR is /scratch/job.4711", "an existing folder"});
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
}

}  // namespace
}  // namespace tandem::distributed
