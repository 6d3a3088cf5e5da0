#include <tandem/data/images/image_orientation.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using namespace std::string_literals;
namespace fs = std::filesystem;

const fs::path picture = fs::path(TANDEM_SOURCE_DIR) / "tests/data/voc_sample/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg";

std::string number(int value, int bytes, bool is_little) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    const int shift = 8 * (is_little ? i : bytes - 1 - i);
    text += static_cast<char>(value >> shift & 255);
  }
  return text;
}

// A TIFF directory with two tags: a width of 3, and the orientation.
std::string exif(int orientation, bool is_little = false) {
  const auto n = [&](int value, int bytes) { return number(value, bytes, is_little); };
  return "Exif\0\0"s + (is_little ? "II" : "MM") + n(42, 2) + n(8, 4) + n(2, 2) +  //
         n(0x0100, 2) + n(4, 2) + n(1, 4) + n(3, 4) +                              //
         n(0x0112, 2) + n(3, 2) + n(1, 4) + n(orientation, 2) + n(0, 2) + n(0, 4);
}

std::string with_segment(const std::string& jpeg, const std::string& contents) {
  return jpeg.substr(0, 2) + "\xff\xe1" + number(static_cast<int>(contents.size()) + 2, 2, false) + contents +
         jpeg.substr(2);
}

enum class Side { top, bottom, left, right };
struct Meaning {
  Side row_0, column_0;
};
// The standard's definition of each value: the sides of the scene on which the first row and the first column are.
constexpr Meaning meanings[] = {{Side::top, Side::left},     {Side::top, Side::right},  {Side::bottom, Side::right},
                                {Side::bottom, Side::left},  {Side::left, Side::top},   {Side::right, Side::top},
                                {Side::right, Side::bottom}, {Side::left, Side::bottom}};

TEST(Orientation, IsAsTheStandardSays) {
  const TemporaryFolder folder;
  const std::string jpeg = read_bytes(picture);
  const ImageFile stored_file(picture);
  const Array stored = stored_file.read();
  const std::int64_t rows = stored.dim(1), columns = stored.dim(2);
  ASSERT_NE(rows, columns);
  for (int value = 1; value <= 8; ++value) {
    for (const bool is_little : {false, true}) {
      const fs::path path = folder / "a.jpg";
      write_bytes(path, with_segment(jpeg, exif(value, is_little)));
      testing::expect_same(stored.contiguous(), ImageFile(path).read().contiguous(), "as stored");
      const ImageFile file(path, Orientation::upright);
      const auto [row_0, column_0] = meanings[value - 1];
      const bool swaps = row_0 == Side::left || row_0 == Side::right;
      const std::int64_t height = swaps ? columns : rows, width = swaps ? rows : columns;
      ASSERT_EQ(file.height(), height) << value;
      ASSERT_EQ(file.width(), width) << value;
      EXPECT_EQ(file.can_scale(), value == 1 && stored_file.can_scale());
      Array expected = Array::empty({3, height, width}, DType::u8);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          std::int64_t x = 0, y = 0;
          for (const auto& [side, at] : {std::pair(row_0, r), {column_0, c}}) {
            if (side == Side::top) y = at;
            if (side == Side::bottom) y = height - 1 - at;
            if (side == Side::left) x = at;
            if (side == Side::right) x = width - 1 - at;
          }
          expected.select(1, y).select(1, x).copy_from(stored.select(1, r).select(1, c));
        }
      }
      testing::expect_same(expected, file.read().contiguous(), "orientation " + std::to_string(value));
      const ImageWindow window{3, 5, 11, 8};
      testing::expect_same(expected.narrow(1, 3, 11).narrow(2, 5, 8).contiguous(), file.read(window).contiguous(),
                           "a window");
    }
  }
}

TEST(Orientation, IsOneWhereNothingSoundSaysMore) {
  const std::string jpeg = read_bytes(picture);
  EXPECT_EQ(exif_orientation(jpeg), 1);
  EXPECT_EQ(exif_orientation(with_segment(jpeg, exif(6))), 6);
  EXPECT_EQ(exif_orientation(with_segment(jpeg, exif(0))), 1);
  EXPECT_EQ(exif_orientation(with_segment(jpeg, exif(9))), 1);
  EXPECT_EQ(exif_orientation("\x89PNG" + exif(6)), 1);
  EXPECT_EQ(exif_orientation(""), 1);
  // A segment of the same type with other contents may come first, and a thumbnail with a different orientation may
  // follow.
  EXPECT_EQ(exif_orientation(with_segment(with_segment(jpeg, exif(6)), "http://ns.adobe.com/xap/1.0/\0<x/>")), 6);
  EXPECT_EQ(exif_orientation(with_segment(with_segment(jpeg, exif(8)), exif(6))), 6);
  // If the data are cut off anywhere, or any byte is damaged, the result is still a number from 1 to 8.
  const std::string whole = exif(6);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(exif_orientation(with_segment(jpeg, whole.substr(0, i))), i < whole.size() - 4 ? 1 : 6) << i;
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = byte;
      const int found = exif_orientation(with_segment(jpeg, damaged));
      EXPECT_TRUE(found >= 1 && found <= 8) << i;
    }
  }
}

}  // namespace
}  // namespace tandem::data
