#include <tandem/core/io/atomic_file.h>

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/full_disk.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using Names = std::vector<std::string>;

void write_atomically(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

TEST(AtomicFile, CreatesAndReplaces) {
  TemporaryFolder folder;
  write_atomically(folder / "a", "first");
  EXPECT_EQ(read_bytes(folder / "a"), "first");
  write_atomically(folder / "a", "2nd");
  EXPECT_EQ(read_bytes(folder / "a"), "2nd");
  write_atomically(folder / "empty", "");
  EXPECT_EQ(folder.names(), (Names{"a", "empty"}));
}

TEST(AtomicFile, ShowsNothingBeforeCommitAndLeavesNothingWithout) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    EXPECT_EQ(read_bytes(folder / "a"), "old");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, ManyWritersOfOnePathEachWriteAllOfIt) {
  TemporaryFolder folder;
  AtomicFile one(folder / "a");
  AtomicFile two(folder / "a");
  one.write("one", 3);
  two.write("second", 6);
  two.commit();
  one.commit();
  EXPECT_EQ(read_bytes(folder / "a"), "one");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, KilledWriterLeavesTheOldFile) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_bytes(folder / "a"), "old");
}

TEST(AtomicFile, FollowsASymbolicLink) {
  TemporaryFolder folder;
  write_bytes(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "target"), "new");
}

TEST(AtomicFile, ObeysTheUmask) {
  TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_atomically(folder / "a", "x");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms(0640));
}

TEST(AtomicFile, MissingFolderAndWrongPaths) {
  TemporaryFolder folder;
  write_bytes(folder / "file", "x");
  EXPECT_ERROR(AtomicFile(folder / "missing" / "a"), (folder / "missing").string(), "No such file",
               "create the folder first");
  EXPECT_ERROR(AtomicFile(folder / "file" / "a"), "Not a directory", "correct the path");
  EXPECT_ERROR(AtomicFile(folder.path()), "it is a folder");
  EXPECT_ERROR(AtomicFile(""), "names no file");
  EXPECT_ERROR(AtomicFile(folder / std::string(300, 'n')), "File name too long", "choose a shorter name");
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(AtomicFile, FolderWithoutPermission) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  // root may write anywhere: look at the file system as somebody else meanwhile
  const bool is_root = ::geteuid() == 0;
  if (is_root) ::setfsuid(65534);
  EXPECT_ERROR(AtomicFile(folder / "a"), (folder / "a").string(), "Permission denied", "is unchanged");
  if (is_root) ::setfsuid(0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, FailedWriteLeavesTheOldFileAndNoTemporary) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  const std::string text(2000, 'x');
  {
    const testing::FullDisk full(1000);
    AtomicFile file(folder / "a");
    EXPECT_ERROR(file.write(text.data(), text.size()), (folder / "a").string(), "after 1000 bytes", "File too large",
                 "is unchanged");
    EXPECT_ERROR(file.write(text.data(), 1), "failed already");
    EXPECT_ERROR(file.commit(), "failed already");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, FailedRenameLeavesNoTemporary) {
  TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("new", 3);
  std::filesystem::create_directory(folder / "a");
  EXPECT_ERROR(file.commit(), "Is a directory");
  EXPECT_EQ(folder.names(), Names{"a"});
}

}  // namespace
}  // namespace tandem
