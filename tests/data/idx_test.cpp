#include <tandem/data/idx.h>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/idx_files.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::gzip;
using testing::idx_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

void expect_bad(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  TemporaryFolder folder;
  const auto path = folder / "file-ubyte";
  write_bytes(path, bytes);
  const std::string text = testing::error_of([&] { read_idx(path); });
  testing::expect_parts(text, {path.string()});
  testing::expect_parts(text, parts);
}

TEST(Idx, PlainAndGzipByContentNotByName) {
  TemporaryFolder folder;
  const std::string bytes = idx_bytes({2, 3}, std::string("\0\1\2\3\4\xff", 6));
  write_bytes(folder / "compressed", gzip(bytes));
  write_bytes(folder / "plain.gz", bytes);
  for (const char* name : {"compressed", "plain.gz"}) {
    const Array array = read_idx(folder / name);
    EXPECT_EQ(array.dtype(), DType::u8);
    ASSERT_EQ(array.shape(), (Shape{2, 3})) << name;
    EXPECT_EQ(std::string(reinterpret_cast<char*>(array.raw()), 6), bytes.substr(bytes.size() - 6));
  }
}

TEST(Idx, WritesWhatItReads) {
  TemporaryFolder folder;
  const std::string bytes = idx_bytes({2, 0x102}, std::string(2 * 0x102, 'x'));
  write_bytes(folder / "a", bytes);
  write_idx(folder / "b", read_idx(folder / "a"));
  EXPECT_EQ(testing::read_bytes(folder / "b"), bytes);
  EXPECT_ERROR(write_idx(folder / "c", Array::empty({2, 3}, DType::u8).transpose(0, 1)), "must be row-major");
  EXPECT_ERROR(write_idx(folder / "c", Array::empty({2, 3})), "got (2, 3) f32");
}

TEST(Idx, LargerThanAllBuffers) {
  TemporaryFolder folder;
  std::string data(1'000'003, '\0');
  std::uint32_t state = 1;
  for (auto& byte : data) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string bytes = idx_bytes({1'000'003}, data);
  write_bytes(folder / "a", bytes);
  write_bytes(folder / "b", gzip(bytes));
  for (const char* name : {"a", "b"}) {
    const Array array = read_idx(folder / name);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), static_cast<const char*>(array.raw()))) << name;
  }
}

TEST(Idx, NoNumbersIsAFileToo) {
  TemporaryFolder folder;
  write_bytes(folder / "a", idx_bytes({0, 28, 28}, ""));
  EXPECT_EQ(read_idx(folder / "a").shape(), (Shape{0, 28, 28}));
}

TEST(Idx, WrongMagic) {
  expect_bad("", {"holds 0 bytes", "truncated"});
  expect_bad(std::string("\0\0\10", 3), {"holds 3 bytes", "truncated"});
  expect_bad("<html>not found</html>", {"begins with the bytes 60 104", "expected 0 0"});
  expect_bad(idx_bytes({1}, "xxxx", 13), {"type 13", "expected 8"});
  expect_bad(idx_bytes({}, ""), {"0 dimensions", "expected 1 to 6"});
  expect_bad(idx_bytes({1, 1, 1, 1, 1, 1, 1}, "x"), {"7 dimensions"});
  expect_bad(idx_bytes({2, 2}, "").substr(0, 11), {"within its header"});
}

TEST(Idx, WrongSize) {
  const std::string good = idx_bytes({3, 2}, "abcdef");
  for (const bool is_compressed : {false, true}) {
    const auto pack = [&](const std::string& bytes) { return is_compressed ? gzip(bytes) : bytes; };
    expect_bad(pack(good.substr(0, good.size() - 1)), {"(3, 2)", "6 bytes"});
    expect_bad(pack(good + "x"), {"more than the 6 bytes", "(3, 2)"});
    expect_bad(pack(idx_bytes({0xffffffff, 0xffffffff}, "abc")), {"more than 4 GiB"});
    expect_bad(pack(idx_bytes({0x10000000}, "abc")), {"268435456 bytes), which is more than it can contain"});
  }
}

TEST(Idx, DamagedGzip) {
  std::string data(5000, '\0');
  std::uint32_t state = 1;
  for (auto& byte : data) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string good = gzip(idx_bytes({5000}, data));
  expect_bad(good.substr(0, good.size() / 2), {"gzip", "truncated", "again"});
  expect_bad(good.substr(0, 2), {"gzip", "truncated"});
  expect_bad(good.substr(0, good.size() - 4), {"gzip", "truncated"});
  expect_bad(good + "x", {"bytes follow the end"});
  expect_bad(good + std::string(3, '\0') + "x", {"bytes follow the end"});
  expect_bad(good + good, {"more than the 5000 bytes"});
  expect_bad(good + good.substr(0, 1), {"gzip", "truncated"});
  const std::string bytes = idx_bytes({5000}, data);
  expect_bad(gzip(bytes.substr(0, 2000)) + gzip(bytes.substr(2000)).substr(0, 20), {"gzip", "truncated"});
  expect_bad(good + "\x1fnothing", {"gzip data is corrupt"});
  std::string flipped = good;
  flipped[good.size() - 6] = static_cast<char>(flipped[good.size() - 6] ^ 1);  // in the CRC
  expect_bad(flipped, {"gzip data is corrupt", "incorrect data check"});
  expect_bad("\x1f\x8b and then something else", {"gzip data is corrupt"});
}

// A gzip file may have several members, as from `cat a.gz b.gz`, pigz -i and bgzip, and zeros at its end.
TEST(Idx, MembersOfAGzipFileFollowEachOther) {
  TemporaryFolder folder;
  std::string data;
  for (int i = 0; i < 200'000; ++i) data += static_cast<char>(i * i >> 3);
  const std::string bytes = idx_bytes({200'000}, data);
  for (const std::size_t step : {std::size_t{1000}, std::size_t{65'536}, bytes.size()}) {
    std::string members = gzip("");
    for (std::size_t at = 0; at < bytes.size(); at += step) members += gzip(bytes.substr(at, step));
    for (const std::string& end : {gzip(""), std::string(), std::string(100'000, '\0')}) {
      write_bytes(folder / "a", members + end);
      const Array array = read_idx(folder / "a");
      ASSERT_EQ(array.shape(), Shape{200'000});
      EXPECT_EQ(std::string(static_cast<const char*>(array.raw()), data.size()), data);
    }
  }
}

// A damaged file gives an Error, or an array that is no larger than deflate can make it.
TEST(Idx, DamagedAtEveryByte) {
  TemporaryFolder folder;
  const auto path = folder / "file";
  const std::string plain = idx_bytes({2, 3}, "abcdef");
  int refused = 0;
  for (const std::string& whole : {plain, gzip(plain)}) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      write_bytes(path, whole.substr(0, i));
      EXPECT_ERROR(read_idx(path), path.string());
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = whole;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
        write_bytes(path, damaged);
        try {
          EXPECT_EQ(read_idx(path).numel(), 6);
        } catch (const Error& error) {
          testing::expect_parts(error.what(), {path.string()});
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(Idx, NoFile) {
  TemporaryFolder folder;
  EXPECT_ERROR(read_idx(folder / "none"), (folder / "none").string(), "No such file");
  EXPECT_ERROR(read_idx(folder.path()), "is not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read_idx(folder / "pipe"), "is not a regular file");
}

}  // namespace
}  // namespace tandem::data
