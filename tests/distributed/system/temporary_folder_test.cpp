#include <tandem/distributed/system/temporary_folder.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using std::chrono::days;

class OldFolders : public ::testing::Test {
 protected:
  // Makes a folder that was last written so long ago.
  fs::path make(const std::string& name, days age) {
    const auto folder = root_.path() / name;
    fs::create_directory(folder);
    fs::last_write_time(folder, fs::file_time_type::clock::now() - age);
    return folder;
  }
  fs::path own() { return make("job-own", days(0)); }

  testing::TemporaryFolder root_;
};

TEST_F(OldFolders, AreRemovedAfterAWeek) {
  const auto month = make("job-month", days(30)), week = make("job-week", days(8)), day = make("job-day", days(1));
  const auto other = make("another", days(30));
  remove_old_folders(own(), "job-");
  EXPECT_FALSE(fs::exists(month));
  EXPECT_FALSE(fs::exists(week));
  EXPECT_TRUE(fs::exists(day));
  EXPECT_TRUE(fs::exists(other));
}

// A user who comes back after two weeks still finds the records of the last failure.
TEST_F(OldFolders, TheNewestStaysWhateverItsAge) {
  const auto older = make("job-older", days(30)), newest = make("job-newest", days(14));
  remove_old_folders(own(), "job-");
  EXPECT_FALSE(fs::exists(older));
  EXPECT_TRUE(fs::exists(newest));
  EXPECT_TRUE(fs::exists(own()));
}

TEST_F(OldFolders, StayWhileAProcessUsesThem) {
  const auto used = make("job-used", days(30));
  make("job-newest", days(14));
  {
    const auto lock = use_folder(used);
    ASSERT_TRUE(lock.is_open());
    remove_old_folders(own(), "job-");
    EXPECT_TRUE(fs::exists(used));
  }
  remove_old_folders(own(), "job-");
  EXPECT_FALSE(fs::exists(used));
}

}  // namespace
}  // namespace tandem::distributed
