#include <tandem/core/io/lock_file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::TemporaryFolder;
using testing::write_bytes;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST(LockFile, OnlyThoseWhoShareTheFolderCanOpenIt) {
  const TemporaryFolder folder;
  const auto file = folder / "lock";
  const auto mode_in = [&](mode_t mode_of_folder) {
    EXPECT_EQ(::chmod(folder.path().c_str(), mode_of_folder), 0);
    const int opened = open_lock_file(file);
    EXPECT_GE(opened, 0);
    ::close(opened);
    return mode_of(file);
  };
  // A lock file from an earlier version.
  write_bytes(file, "");
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  EXPECT_EQ(mode_in(0755), 0600u);
  EXPECT_EQ(mode_in(0770), 0660u);
  EXPECT_EQ(mode_in(02775), 0660u);
  EXPECT_EQ(mode_in(0777), 0664u);
  EXPECT_EQ(mode_in(01757), 0600u);
  EXPECT_EQ(mode_in(0700), 0600u);
  std::filesystem::create_symlink("lock", folder / "link");
  EXPECT_EQ(open_lock_file(folder / "link"), -1);
  EXPECT_EQ(errno, ELOOP);
}

// The folder's group gets no access if the user is not in it, or if the file can't have that group.
TEST(LockFile, TheGroupIsThatOfTheFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "NOT RUN: only root can give a folder to any group";
  const TemporaryFolder folder;
  ASSERT_EQ(::chown(folder.path().c_str(), 0, 1234), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0770), 0);
  ::close(open_lock_file(folder / "lock"));
  struct stat status {};
  ASSERT_EQ(::stat((folder / "lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, 1234u);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
}

TEST(LockFile, NamesTheProcessThatHoldsIt) {
  const TemporaryFolder folder;
  const auto file = folder / "lock";
  const int lock = open_lock_file(file);
  ASSERT_GE(lock, 0);
  EXPECT_EQ(lock_holder(file), "another process");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int mine = ::open(file.c_str(), O_RDONLY);
    const char word = ::flock(mine, LOCK_SH) == 0 ? 'y' : 'n';
    [[maybe_unused]] const auto written = ::write(ready[1], &word, 1);
    ::pause();
    ::_exit(0);
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  ASSERT_EQ(word, 'y');
  testing::expect_parts(lock_holder(file), {"process " + std::to_string(child) + " (test_core) of user "});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(lock_holder(file), "another process");
  for (const int descriptor : {lock, ready[0], ready[1]}) ::close(descriptor);
}

}  // namespace
}  // namespace tandem
