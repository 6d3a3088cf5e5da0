#include <tandem/core/random/random.h>
#include <tandem/data/cifar.h>
#include <tandem/data/download/archive.h>
#include <tandem/data/download/download.h>
#include <tandem/data/download_cifar.h>
#include <tandem/data/image_folder.h>
#include <tandem/data/images/image.h>
#include <tandem/data/images/image_file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>

#include "support/arrays.h"
#include "support/full_disk.h"
#include "support/http_server.h"
#include "support/refused_calls.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::HttpServer;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

const fs::path images = fs::path(TANDEM_SOURCE_DIR) / "tests/data/images";

void run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

TEST(ReadImage, DecodesPngAndJpeg) {
  const Array png = read_image(images / "cats/b.png");
  EXPECT_EQ(png.shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(png.permute({1, 2, 0}).to_vector<float>(), ([] {
              std::vector<float> values(60);
              for (int i = 0; i < 60; ++i) values[i] = static_cast<float>(4 * i);
              return values;
            }()));
  // A grey image has three equal channels.
  EXPECT_EQ(read_image(images / "dogs/old/grey.png").to_vector<float>(), std::vector<float>(18, 77));
  const Array jpeg = read_image(images / "cats/a.JPG");
  ASSERT_EQ(jpeg.shape(), (Shape{3, 16, 24}));
  const double expected[3][3] = {{196, 3, 0}, {200, 134, 0}, {205, 251, 3}};  // by libjpeg, at columns 0, 12 and 23
  const std::int64_t columns[] = {0, 12, 23};
  for (int k = 0; k < 3; ++k)
    for (int c = 0; c < 3; ++c)
      EXPECT_NEAR(jpeg.select(0, c).select(0, 8).select(0, columns[k]).item(), expected[k][c], 3);
}

TEST(ReadImage, NamesTheFileThatIsDamaged) {
  const TemporaryFolder folder;
  const std::string png = read_bytes(images / "cats/b.png");
  write_bytes(folder / "short.png", png.substr(0, 40));
  write_bytes(folder / "text.png", "not an image");
  write_bytes(folder / "empty.png", "");
  for (const char* name : {"short.png", "text.png", "empty.png"})
    EXPECT_ERROR(read_image(folder / name), std::string(name) + " cannot be decoded");
  EXPECT_ERROR(read_image(folder / "none.png"), "cannot be opened");
}

// stb_image alone does not handle these files safely.
TEST(ReadImage, RefusesWhatIsMadeToHarm) {
  const TemporaryFolder folder;
  std::string jpeg = read_bytes(images / "cats/a.JPG");
  const auto table = jpeg.find("\xff\xc4");
  ASSERT_NE(table, std::string::npos);
  write_bytes(folder / "more_fill.jpg", "\xff" + jpeg);
  EXPECT_EQ(read_image(folder / "more_fill.jpg").shape(), read_image(images / "cats/a.JPG").shape());
  std::string without_tables = "\xff" + jpeg;
  for (auto at = without_tables.find("\xff\xc4"); at != std::string::npos; at = without_tables.find("\xff\xc4", at))
    without_tables[at + 1] = '\xe4';  // a segment that decoders skip
  write_bytes(folder / "no_tables.jpg", without_tables);
  EXPECT_ERROR(read_image(folder / "no_tables.jpg"), "no_tables.jpg cannot be decoded");
  jpeg.replace(table + 5, 16, 16, '\xff');
  write_bytes(folder / "codes.jpg", jpeg);
  EXPECT_ERROR(read_image(folder / "codes.jpg"), "codes.jpg cannot be decoded: a Huffman table");
  write_bytes(folder / "codes_too.jpg", "\xff" + jpeg);
  EXPECT_ERROR(read_image(folder / "codes_too.jpg"), "a Huffman table");
  write_bytes(folder / "bomb.pgm", "P5 32767 32767 255\n" + std::string(100, ';'));
  EXPECT_ERROR(read_image(folder / "bomb.pgm"), "announces 32767 x 32767 pixels");
}

// Decoders that are not needed are not compiled in. Otherwise a malicious file could reach them under any name.
TEST(ReadImage, KnowsNoOtherFormats) {
  const TemporaryFolder folder;
  const std::string psd("8BPS\0\1\0\0\0\0\0\0\0\3\0\0\0\4\0\0\0\4\0\x8\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40);
  const std::string tga("\0\0\2\0\0\0\0\0\0\0\0\0\4\0\4\0\x18\0", 18);
  const std::string gif("GIF87a\4\0\4\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\4\0\4\0\0\2\4\x84\x8f\x09\5\0;", 36);
  const std::string webp("RIFF\x1a\0\0\0WEBPVP8L", 16), tiff("II*\0\x8\0\0\0", 8),
      heic(
          "\0\0\0\x18"
          "ftypheic",
          12);
  for (const auto& [bytes, kind] :
       {std::pair<std::string, std::string>{psd + std::string(60, '\0'), "of any known type"},
        {tga + std::string(48, '\1'), "not of any known type"},
        {"x", "not of any known type"},
        {gif, "it is GIF"},
        {webp, "it is WebP"},
        {tiff, "it is TIFF"},
        {heic, "it is HEIC"}}) {
    write_bytes(folder / "picture.png", bytes);
    EXPECT_ERROR(data::ImageFile(folder / "picture.png"), "cannot be decoded", kind, "JPEG, PNG, BMP and PNM are read");
  }
}

// Returns a grey progressive JPEG with `scans` scans of all coefficients. Each scan has only a few bytes.
std::string progressive(int width, int height, int scans) {
  const auto number = [](int value) { return std::string{static_cast<char>(value >> 8), static_cast<char>(value)}; };
  const auto segment = [&](char marker, const std::string& contents) {
    return std::string{'\xff', marker} + number(static_cast<int>(contents.size()) + 2) + contents;
  };
  // A Huffman table with one code, which is a single 0.
  const auto table = [&](char kind, char symbol) {
    return segment('\xc4', std::string{kind, 1} + std::string(15, '\0') + symbol);
  };
  const std::size_t blocks = static_cast<std::size_t>((width + 7) / 8) * static_cast<std::size_t>((height + 7) / 8);
  std::string jpeg =
      "\xff\xd8" + segment('\xc2', '\x8' + number(height) + number(width) + std::string("\1\1\x11\0", 4));
  jpeg += segment('\xdb', std::string(1, '\0') + std::string(64, '\1'));
  // In the first table, the code means a difference of 0 between two blocks. In the second, it means 2^14 blocks (and
  // 14 more bits) without coefficients.
  jpeg += table('\0', '\0') + table('\x10', '\xe0');
  jpeg += segment('\xda', std::string("\1\1\0\0\0\0", 6)) + std::string((blocks + 7) / 8, '\0');
  for (int scan = 1; scan < scans; ++scan)
    jpeg +=
        segment('\xda', std::string("\1\1\0\1\x3f\0", 6)) + std::string(((blocks + 16383) / 16384 * 15 + 7) / 8, '\0');
  return jpeg + "\xff\xd9";
}

// A decoder goes over the whole picture for every scan, and a scan may be very small.
TEST(ReadImage, CountsTheScansOfProgressiveJpegs) {
  const TemporaryFolder folder;
  for (const std::string fill : {"", "\xff"}) {  // read by libjpeg-turbo, and by stb_image
    const auto write = [&](int width, int height, int scans) {
      const auto path = folder / "scans.jpg";
      write_bytes(path, fill + progressive(width, height, scans));
      return path;
    };
    EXPECT_EQ(read_image(write(64, 64, 500)).shape(), (Shape{3, 64, 64}));
    EXPECT_EQ(read_image(write(1024, 1024, 10)).shape(), (Shape{3, 1024, 1024}));
    EXPECT_ERROR(read_image(write(64, 64, 501)), "scans.jpg",
                 "it has 501 scans of 64 x 64 pixels, expected at most 500");
    EXPECT_ERROR(read_image(write(16384, 4096, 65)), "it has 65 scans of 16384 x 4096 pixels, expected at most 64");
  }
}

TEST(ImageFolder, NumbersClassesAndSortsFiles) {
  const ImageFolder folder(images);
  EXPECT_EQ(folder.classes(), (std::vector<std::string>{"cats", "dogs"}));
  ASSERT_EQ(folder.size(), 3);
  EXPECT_EQ(folder.file(0).filename(), "a.JPG");
  EXPECT_EQ(folder.sample(1).input.shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(folder.sample(1).target.item(), 0);
  EXPECT_EQ(folder.sample(2).target.item(), 1);
  const std::vector<std::int64_t> both{0, 1};
  EXPECT_ERROR(folder.get(both), "the samples of a batch differ");
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_ERROR(ImageFolder(folder / "none"), "cannot be read");
  EXPECT_ERROR(ImageFolder{folder.path()}, "one for each class");
  fs::create_directory(folder / "birds");
  write_bytes(folder / "birds" / "notes.txt", "x");
  EXPECT_ERROR(ImageFolder{folder.path()}, "the class birds has no image");
}

// As in torchvision. Without this, a data set that is collected by links would be smaller, and nothing would say so.
TEST(ImageFolder, FollowsLinksToFolders) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "all" / "cats");
  fs::create_directory_symlink(images / "cats", folder / "all" / "cats" / "of_others");
  EXPECT_EQ(ImageFolder(folder / "all").size(), 2);
  fs::create_directory_symlink(folder / "all", folder / "all" / "cats" / "around");
  EXPECT_ERROR(ImageFolder(folder / "all"), "around is a link to a folder that contains it");
}

using Names = std::vector<std::string>;

Names names_in(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Makes the archive `name` in `folder` from the contents of its folder "in".
void make_archive(const TemporaryFolder& folder, const std::string& name, const std::string& options,
                  const std::string& what = ".") {
  run("tar " + options + " -cf '" + (folder / name).string() + "' -C '" + (folder / "in").string() + "' " + what);
}

TEST(Archive, UnpacksFilesAndFolders) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/a/b");
  write_bytes(folder / "in/a/b/c.txt", "hello");
  write_bytes(folder / "in/empty", "");
  std::string noise;  // incompressible, so that half of the archive ends inside it
  Generator generator(1);
  for (int i = 0; i < 200000; ++i) noise += static_cast<char>(generator.next_u32());
  write_bytes(folder / "in/noise", noise);
  run("tar czf '" + (folder / "x.tar.gz").string() + "' -C '" + (folder / "in").string() + "' .");
  extract_archive(folder / "x.tar.gz", folder / "out/deep");
  EXPECT_EQ(read_bytes(folder / "out/deep/a/b/c.txt"), "hello");
  EXPECT_EQ(read_bytes(folder / "out/deep/empty"), "");
  extract_archive(folder / "x.tar.gz", folder / "out/deep");  // again, over existing files
  const std::string bytes = read_bytes(folder / "x.tar.gz");
  write_bytes(folder / "short.tar.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_ERROR(extract_archive(folder / "short.tar.gz", folder / "out2"), "short.tar.gz is damaged");
  EXPECT_FALSE(fs::exists(folder / "out2/noise"));
  write_bytes(folder / "text.tar.gz", "no archive");
  EXPECT_ERROR(extract_archive(folder / "text.tar.gz", folder / "out3"), "text.tar.gz");
  run("tar cf '" + (folder / "x.tar").string() + "' -C '" + (folder / "in").string() + "' noise");
  write_bytes(folder / "short.tar", read_bytes(folder / "x.tar").substr(0, 100000));
  EXPECT_ERROR(extract_archive(folder / "short.tar", folder / "out4"), "short.tar is damaged");
  EXPECT_EQ(names_in(folder / "out4"), Names{"short.tar.unpacking"});
  EXPECT_ERROR(extract_archive(folder / "none.tar", folder / "out5"), "none.tar", "No such file");
}

TEST(Archive, FullDiskLeavesNothingHalfWritten) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/a", "small");
  write_bytes(folder / "in/b", std::string(100000, 'b'));
  run("tar cf '" + (folder / "x.tar").string() + "' -C '" + (folder / "in").string() + "' a b");
  {
    const testing::FullDisk full(10000);
    EXPECT_ERROR(extract_archive(folder / "x.tar", folder / "out"), "x.tar", "out/b failed", "File too large",
                 "free space");
  }
  EXPECT_EQ(names_in(folder / "out"), (Names{"a", "x.tar.unpacking"}));
  EXPECT_TRUE(is_half_unpacked(folder / "x.tar", folder / "out"));
  extract_archive(folder / "x.tar", folder / "out");
  EXPECT_FALSE(is_half_unpacked(folder / "x.tar", folder / "out"));
  EXPECT_EQ(names_in(folder / "out"), (Names{"a", "b"}));
  EXPECT_EQ(read_bytes(folder / "out/b"), std::string(100000, 'b'));
  write_bytes(folder / "file", "");
  EXPECT_ERROR(extract_archive(folder / "x.tar", folder / "file"), "can't create the folder", "file to unpack",
               "x.tar");
}

TEST(Archive, IsUnpackedByOneOfSeveralAtATime) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/b", std::string(3000000, 'b'));
  run("tar cf '" + (folder / "x.tar").string() + "' -C '" + (folder / "in").string() + "' b");
  std::atomic<int> unpacked = 0;
  std::vector<std::future<void>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(std::async(std::launch::async, [&] {
      extract_archive(folder / "x.tar", folder / "out", [&] {
        const bool is_done = fs::exists(folder / "out/b");
        if (!is_done) ++unpacked;
        return is_done;
      });
    }));
  for (auto& one : all) one.get();
  EXPECT_EQ(unpacked, 1);
}

// Any user may read the archive, and can therefore lock it.
TEST(Archive, ALockOfTheArchiveHoldsNobodyUp) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/a", "small");
  make_archive(folder, "x.tar", "");
  const int other = ::open((folder / "x.tar").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const auto done = std::async(std::launch::async, [&] { extract_archive(folder / "x.tar", folder / "out"); });
  EXPECT_EQ(done.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  ::close(other);
  done.wait();
  EXPECT_EQ(names_in(folder / "out"), Names{"a"});
}

TEST(Archive, RefusesWhatLeadsOutOfTheFolder) {
  const TemporaryFolder folder;
  write_bytes(folder / "evil", "x");
  fs::create_directory(folder / "in");
  run("tar cPf '" + (folder / "up.tar").string() + "' -C '" + (folder / "in").string() + "' ../evil");
  fs::create_symlink("/etc", folder / "in/link");
  run("tar cf '" + (folder / "link.tar").string() + "' -C '" + (folder / "in").string() + "' link");
  run("tar cPf '" + (folder / "absolute.tar").string() + "' '" + (folder / "evil").string() + "'");
  EXPECT_ERROR(extract_archive(folder / "up.tar", folder / "out"), "leads out of the folder");
  EXPECT_ERROR(extract_archive(folder / "absolute.tar", folder / "out"), "leads out of the folder");
  EXPECT_ERROR(extract_archive(folder / "link.tar", folder / "out"), "links are not unpacked");
  fs::remove(folder / "in/link");
  write_bytes(folder / "in/one", "x");
  fs::create_hard_link(folder / "in/one", folder / "in/two");
  ASSERT_EQ(::mkfifo((folder / "in/pipe").c_str(), 0600), 0);
  run("tar cf '" + (folder / "pipe.tar").string() + "' -C '" + (folder / "in").string() + "' pipe");
  std::string device = read_bytes(folder / "pipe.tar");
  device[156] = '3';  // a character device; the checksum changes by as much as the type, which was '6'
  const unsigned sum = static_cast<unsigned>(std::stoul(device.substr(148, 6), nullptr, 8)) - 3;
  std::snprintf(device.data() + 148, 7, "%06o", sum);
  write_bytes(folder / "device.tar", device);
  for (const char* name : {"pipe.tar", "device.tar"})
    EXPECT_ERROR(extract_archive(folder / name, folder / "out"), name, "neither a file nor a folder");
  for (const auto& name : names_in(folder / "out")) EXPECT_TRUE(name.ends_with(".unpacking")) << name;
  run("tar cf '" + (folder / "hard.tar").string() + "' -C '" + (folder / "in").string() + "' one two");
  EXPECT_ERROR(extract_archive(folder / "hard.tar", folder / "out"), "two is neither", "links are not");
  EXPECT_FALSE(fs::exists(folder / "out/two"));
}

TEST(Archive, CountsAsUnpackedWhenAllIsOnTheDisk) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/a", "small");
  make_archive(folder, "x.tar", "");
  std::async(std::launch::async, [&] {
    testing::refuse_call(SYS_syncfs, EIO);
    EXPECT_ERROR(extract_archive(folder / "x.tar", folder / "out"), "x.tar", "Input/output error");
  }).get();
  EXPECT_EQ(read_bytes(folder / "out/a"), "small");
  EXPECT_TRUE(is_half_unpacked(folder / "x.tar", folder / "out"));
  extract_archive(folder / "x.tar", folder / "out");
  EXPECT_FALSE(is_half_unpacked(folder / "x.tar", folder / "out"));
}

TEST(Archive, SeveralAtOnceWithoutLocksEachGetWholeFiles) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/b", std::string(3000000, 'b'));
  make_archive(folder, "x.tar", "", "b");
  std::vector<std::future<void>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(std::async(std::launch::async, [&] {
      testing::refuse_call(SYS_flock, ENOLCK);
      for (int times = 0; times < 5; ++times) {
        extract_archive(folder / "x.tar", folder / "out");
        EXPECT_TRUE(read_bytes(folder / "out/b") == std::string(3000000, 'b'));
      }
    }));
  for (auto& one : all) one.get();
  EXPECT_EQ(names_in(folder / "out"), Names{"b"});
}

TEST(Archive, HasLimits) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/c");
  write_bytes(folder / "in/a", std::string(1'000'000, 'a'));
  write_bytes(folder / "in/b", std::string(1'000'000, 'b'));
  make_archive(folder, "x.tar.gz", "-z", "a b c");
  const auto extract = [&](const std::string& name, const ArchiveLimits& limits) {
    fs::remove_all(folder / "out");
    extract_archive(folder / name, folder / "out", {}, limits);
  };
  extract("x.tar.gz", {3, 2'000'000});
  EXPECT_ERROR(extract("x.tar.gz", {2, 2'000'000}), "x.tar.gz holds more than 2 files and folders");
  EXPECT_ERROR(extract("x.tar.gz", {3, 1'999'999}), "x.tar.gz exceeds the limit", "1000000 bytes, and 999999 are left");
  EXPECT_EQ(names_in(folder / "out"), (Names{"a", "x.tar.gz.unpacking"}));
  // A hole of one TiB takes no space, but counts towards the limit.
  write_bytes(folder / "in/hole", "x");
  fs::resize_file(folder / "in/hole", std::uintmax_t{1} << 40);
  make_archive(folder, "hole.tar", "-S", "hole");
  EXPECT_ERROR(extract("hole.tar", {}), "hole.tar exceeds the limit", "1099511627776");
  // A smaller hole is unpacked with its full size, even at the end of the file.
  fs::resize_file(folder / "in/hole", 5'000'000);
  make_archive(folder, "hole.tar", "-S", "hole");
  extract("hole.tar", {});
  EXPECT_EQ(read_bytes(folder / "out/hole"), "x" + std::string(4'999'999, '\0'));
}

TEST(Archive, StartsNoProgramsAndReadsNoOtherFiles) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in");
  write_bytes(folder / "secret", "of this host");
  write_bytes(folder / "x.mtree", "#mtree\nstolen type=file contents=" + (folder / "secret").string() + "\n");
  EXPECT_ERROR(extract_archive(folder / "x.mtree", folder / "out"), "x.mtree", "must be a tar, a tar.gz or a zip");
  EXPECT_FALSE(fs::exists(folder / "out/stolen"));
  // libarchive would start the program lrzip.
  write_bytes(folder / "lrzip", "#!/bin/sh\ntouch '" + (folder / "started").string() + "'\n");
  fs::permissions(folder / "lrzip", fs::perms(0755));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  write_bytes(folder / "x.tar.lrz", std::string("LRZI\0\6", 6) + std::string(1000, '\0'));
  EXPECT_ERROR(extract_archive(folder / "x.tar.lrz", folder / "out"), "x.tar.lrz", "must be a tar");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_FALSE(fs::exists(folder / "started"));
  write_bytes(folder / "empty.tar", "");
  EXPECT_ERROR(extract_archive(folder / "empty.tar", folder / "out"), "empty.tar", "must be a tar");
}

TEST(Archive, TakesNamesOfAllLanguages) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_bytes(folder / "in/ä", "umlaut");
  write_bytes(folder / "in/z", "the last");
  for (const std::string format : {"pax", "gnu"}) {
    make_archive(folder, format + ".tar", "--format=" + format, "ä z");
    extract_archive(folder / (format + ".tar"), folder / format);
    EXPECT_EQ(names_in(folder / format), (Names{"z", "ä"}));
    EXPECT_EQ(read_bytes(folder / format / "ä"), "umlaut");
  }
  // A name that is not UTF-8 gives a warning, and is kept unchanged.
  write_bytes(folder / "in/\xe4", "Latin-1");
  make_archive(folder, "latin.tar", "--format=pax", "'\xe4' z");
  extract_archive(folder / "latin.tar", folder / "latin");
  EXPECT_EQ(names_in(folder / "latin"), (Names{"z", "\xe4"}));
}

// Returns a zip with one stored file. Its flags say that the name is in UTF-8.
std::string zip_of(const std::string& name, const std::string& data, std::uint32_t crc) {
  const auto number = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const auto size = static_cast<std::uint32_t>(data.size());
  const auto name_size = static_cast<std::uint32_t>(name.size());
  // The fields are the version, flags, method, time and date, checksum, both sizes, and the lengths of the name and of
  // the extra field. In the central directory, the length of a comment, the disk, attributes and the offset of the file
  // follow.
  const std::string fields = number(20, 2) + number(0x800, 2) + number(0, 2) + number(0x210000, 4) + number(crc, 4) +
                             number(size, 4) + number(size, 4) + number(name_size, 2) + number(0, 2);
  const std::string file = "PK\3\4" + fields + name + data;
  const std::string directory = "PK\1\2" + number(20, 2) + fields + std::string(14, '\0') + name;
  return file + directory + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(static_cast<std::uint32_t>(directory.size()), 4) + number(static_cast<std::uint32_t>(file.size()), 4) +
         number(0, 2);
}

TEST(Archive, UnpacksAZipAndChecksItsBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.zip", zip_of("ä", "hello", 0x3610a686));
  extract_archive(folder / "x.zip", folder / "out");
  EXPECT_EQ(read_bytes(folder / "out/ä"), "hello");
  // libarchive reports a wrong checksum only as a warning.
  write_bytes(folder / "wrong.zip", zip_of("b", "hello", 0x3610a687));
  EXPECT_ERROR(extract_archive(folder / "wrong.zip", folder / "out"), "wrong.zip is damaged", "CRC");
  EXPECT_FALSE(fs::exists(folder / "out/b"));
}

// Returns `count` samples. Each has a label, then 1,024 bytes each of red, green and blue, which differ between
// samples.
std::string cifar_file(int count, int label_bytes) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    if (label_bytes == 2) bytes += '\7';
    bytes += static_cast<char>(i % 10);
    for (int c = 0; c < 3; ++c) bytes += std::string(1024, static_cast<char>(10 * i + c));
  }
  return bytes;
}

TEST(Cifar, ReadsTheBinaryVersion) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "cifar-10-batches-bin");
  for (int i = 1; i <= 5; ++i)
    write_bytes(folder / ("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin"), cifar_file(4, 1));
  write_bytes(folder / "cifar-10-batches-bin/test_batch.bin", cifar_file(3, 1));
  const Cifar train(folder.path(), Cifar::Version::cifar10, Split::train);
  const Cifar test(folder / "cifar-10-batches-bin", Cifar::Version::cifar10, Split::test);
  EXPECT_EQ(train.size(), 20);
  EXPECT_EQ(test.size(), 3);
  const std::vector<std::int64_t> indices{6, 0};
  const Batch batch = train.get(indices);
  ASSERT_EQ(batch.inputs.shape(), (Shape{2, 3, 32, 32}));
  EXPECT_TRUE(batch.inputs.is_channels_last());
  EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 0}));
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(batch.inputs.select(0, 0).select(0, c).select(0, 31).select(0, 5).to_vector<float>(),
              (std::vector<float>{static_cast<float>(20 + c) / 255.0f}));
  EXPECT_EQ(train.sample(6).input.shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(train.sample(6).input.dtype(), DType::u8);

  write_bytes(folder / "train.bin", cifar_file(2, 2));
  const Cifar fine(folder.path(), Cifar::Version::cifar100, Split::train);
  EXPECT_EQ(fine.labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
}

TEST(Cifar, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto open = [&] { Cifar(folder.path(), Cifar::Version::cifar10, Split::test); };
  EXPECT_ERROR(open(), "does not contain test_batch.bin", "unpack cifar-10-binary.tar.gz there");
  write_bytes(folder / "test_batch.bin", cifar_file(2, 1) + "x");
  EXPECT_ERROR(open(), "test_batch.bin has 6147 bytes");
  std::string bytes = cifar_file(2, 1);
  bytes[3073] = 10;
  write_bytes(folder / "test_batch.bin", bytes);
  EXPECT_ERROR(open(), "sample 1 has the label 10, expected 0 to 9");
}

TEST(Cifar, IsDownloadedAndUnpackedOnce) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "in/cifar-100-binary");
  write_bytes(folder / "in/cifar-100-binary/train.bin", cifar_file(5, 2));
  write_bytes(folder / "in/cifar-100-binary/test.bin", cifar_file(2, 2));
  run("tar czf '" + (folder / "made.tar.gz").string() + "' -C '" + (folder / "in").string() + "' cifar-100-binary");
  const std::string archive = read_bytes(folder / "made.tar.gz");
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, archive); });
  const CifarSource source{server.url(), md5_of(folder / "made.tar.gz"), {}};
  for (int times = 0; times < 2; ++times) download_cifar(folder / "data", Cifar::Version::cifar100, source);
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(Cifar(folder / "data", Cifar::Version::cifar100, Split::train).size(), 5);
  // Simulates a power loss during unpacking: every file exists, but not with all of its bytes.
  write_bytes(folder / "data/cifar-100-binary/train.bin", "");
  write_bytes(folder / "data/cifar-100-binary.tar.gz.unpacking", "");
  download_cifar(folder / "data", Cifar::Version::cifar100, source);
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(Cifar(folder / "data", Cifar::Version::cifar100, Split::train).size(), 5);
}

}  // namespace
}  // namespace tandem::data
