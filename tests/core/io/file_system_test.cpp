#include <tandem/core/io/file_system.h>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"

namespace {

std::vector<std::string>* synchronised = nullptr;  // the paths passed to fsync(), or null if no test needs them
int fsync_error = 0;                               // the error number with which fsync() fails

}  // namespace

// Replaces the C library's function in this whole program.
extern "C" int fsync(int file) {
  if (synchronised != nullptr)
    synchronised->push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)).string());
  if (fsync_error == 0) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = fsync_error;
  return -1;
}

namespace tandem {
namespace {

using testing::TemporaryFolder;
using testing::write_bytes;

TEST(FileSystem, CreatesAFolderAndThoseAboveIt) {
  const TemporaryFolder folder;
  for (int twice = 0; twice < 2; ++twice) create_folder(folder / "a/b/c", "for logs");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
}

TEST(FileSystem, MakesEveryNewFolderDurable) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  std::vector<std::string> names;
  synchronised = &names;
  create_folder(folder / "a/b/c/", "for checkpoints");
  const auto first = std::exchange(names, {});
  create_folder(folder / "a/b/c/", "for checkpoints");
  synchronised = nullptr;
  // The deepest existing folder may be new as well, so its parent is synchronised too.
  EXPECT_EQ(first,
            (std::vector<std::string>{folder.path().string(), (folder / "a").string(), (folder / "a/b").string()}));
  EXPECT_EQ(names, std::vector<std::string>{(folder / "a/b").string()});

  fsync_error = EIO;
  EXPECT_ERROR(create_folder(folder / "d", "for checkpoints"), (folder / "d").string(), "Input/output error");
  fsync_error = EINVAL;  // the error of a file system that cannot synchronise folders
  EXPECT_NO_THROW(create_folder(folder / "e", "for checkpoints"));
  fsync_error = 0;
}

TEST(FileSystem, MakesRelativeFolders) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  create_folder("a/b", "for logs");
  create_folder("./c", "for logs");
  create_folder("a/../d", "for logs");
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "c", "d"}));
  EXPECT_ERROR(create_folder("", "for logs"), "No such file");
}

TEST(FileSystem, SaysWhatTheFolderIsForAndWhatIsInTheWay) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "x");
  for (const auto& path : {folder / "file", folder / "file/below"})
    EXPECT_ERROR(create_folder(path, "for checkpoints"), "can't create the folder " + path.string(), "for checkpoints",
                 "a part of the path is a file, not a folder");
}

TEST(FileSystem, ExplainsAnErrorNumber) {
  EXPECT_EQ(explain_file_error(ENOSPC),
            "No space left on device; free space on that file system or write to another one");
}

}  // namespace
}  // namespace tandem
