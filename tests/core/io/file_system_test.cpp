#include <tandem/core/io/file_system.h>

#include <gtest/gtest.h>

#include <cerrno>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::TemporaryFolder;
using testing::write_bytes;

TEST(FileSystem, CreatesAFolderAndThoseAboveIt) {
  const TemporaryFolder folder;
  for (int twice = 0; twice < 2; ++twice) create_folder(folder / "a/b/c", "for logs");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
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
