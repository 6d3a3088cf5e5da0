#include <tandem/core/base/write_all.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tandem {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;

TEST(WriteAll, WritesAtThePositionAndAtAnOffset) {
  const TemporaryFolder folder;
  const int file = ::open((folder / "file").c_str(), O_WRONLY | O_CREAT, 0666);
  const std::string text = "0123456789";
  EXPECT_EQ(write_all(file, text.data(), text.size()), text.size());
  EXPECT_EQ(write_all(file, "ab", 2, 3), 2u);
  EXPECT_EQ(write_all(file, "end", 3), 3u);
  EXPECT_EQ(write_all(file, nullptr, 0), 0u);
  ::close(file);
  EXPECT_EQ(read_bytes(folder / "file"), "012ab56789end");
}

TEST(WriteAll, SaysHowFarItCameAndWhy) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  errno = 0;
  EXPECT_EQ(write_all(full, "ab", 2), 0u);
  EXPECT_EQ(errno, ENOSPC);
  ::close(full);
}

// A pipe without a reader accepts only what fits.
TEST(WriteAll, SaysHowMuchAPipeTook) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string text(std::size_t{1} << 20, 'x');
  const std::size_t count = write_all(ends[1], text.data(), text.size());
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(count, 0u);
  EXPECT_LT(count, text.size());
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tandem
