#include <tandem/data/images/image.h>
#include <tandem/data/images/image_file.h>
#include <tandem/data/images/image_png.h>
#include <tandem/data/segmentation/segmentation_picture.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::Golden;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

const fs::path files = fs::path(TANDEM_SOURCE_DIR) / "tests/data/image_files";
const fs::path scenes = fs::path(TANDEM_SOURCE_DIR) / "tests/data/voc_sample/VOCdevkit/VOC2012/JPEGImages";

// The tests' own JPEGs, and those of PASCAL VOC if TANDEM_VOC names it.
std::vector<fs::path> jpegs() {
  std::vector<fs::path> found{files / "grey.jpg", files / "cmyk.jpg"};
  for (const auto& entry : fs::directory_iterator(scenes)) found.push_back(entry.path());
  if (const char* root = std::getenv("TANDEM_VOC"))
    for (const auto& entry : fs::directory_iterator(fs::path(root) / "VOCdevkit/VOC2012/JPEGImages"))
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

int largest_difference(const Array& a, const Array& b) {
  EXPECT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<std::int64_t>(), y = b.to_vector<std::int64_t>();
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return static_cast<int>(largest);
}

TEST(ImageFile, DecodesGreyAndCmykAsPillowDoes) {
  const Golden golden("segmentation.safetensors");
  for (const char* name : {"grey.jpg", "cmyk.jpg"}) {
    const ImageFile file(files / name);
    EXPECT_EQ(file.height(), 41);
    EXPECT_EQ(file.width(), 53);
    // Other libraries round differently in their transforms.
    EXPECT_LE(largest_difference(file.read(), golden["decoded/" + std::string(name)]), file.can_scale() ? 1 : 4)
        << name;
  }
}

TEST(ImageFile, WindowsAreTheSamePixels) {
  for (const fs::path& path : jpegs()) {
    const ImageFile file(path);
    for (const int eighths : {8, 4, 2, 1}) {
      if (eighths < 8 && !file.can_scale()) continue;
      const std::int64_t height = ImageFile::scaled(file.height(), eighths),
                         width = ImageFile::scaled(file.width(), eighths);
      const auto read = [&](const ImageWindow& window) {
        return eighths == 8 ? file.read(window) : file.read_scaled(window, eighths);
      };
      const Array whole = read({0, 0, height, width});
      for (int i = 0; i < 6; ++i) {
        const std::int64_t top = i * 17 % height, left = i * 29 % width;
        const ImageWindow window{top, left, std::max<std::int64_t>(1, (height - top) * (i + 1) / 7),
                                 std::max<std::int64_t>(1, (width - left) * (6 - i) / 6)};
        const Array part = read(window);
        ASSERT_EQ(part.shape(), (Shape{3, window.height, window.width}));
        const Array same = whole.narrow(1, top, window.height).narrow(2, left, window.width);
        ASSERT_EQ(std::memcmp(part.contiguous().raw(), same.contiguous().raw(), part.bytes()), 0)
            << path << " at " << eighths << " eighths, window " << top << ' ' << left << ' ' << window.height << ' '
            << window.width;
      }
    }
  }
}

TEST(ImageFile, ScaledPicturesAreThePictureMadeSmaller) {
  const ImageFile file(scenes / "scene_b.jpg");
  if (!file.can_scale()) GTEST_SKIP() << "NOT RUN: this build has no libjpeg-turbo";
  const Array whole = file.read();
  const std::int64_t height = ImageFile::scaled(file.height(), 4), width = ImageFile::scaled(file.width(), 4);
  const Array half = file.read_scaled({0, 0, height, width}, 4);
  ASSERT_EQ(half.shape(), (Shape{3, 30, 21}));
  double sum = 0;
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 30; ++y)
      for (int x = 0; x < 20; ++x) {
        const Array block = whole.select(0, c).narrow(0, 2 * y, 2).narrow(1, 2 * x, 2);
        double mean = 0;
        for (const double v : block.to_vector<double>()) mean += v / 4;
        sum += std::abs(half.select(0, c).select(0, y).select(0, x).item() - mean);
      }
  EXPECT_LT(sum / (3 * 30 * 20), 3);
  EXPECT_ERROR(file.read_scaled({0, 0, 1, 1}, 3), "at 1, 2, 4 or 8 eighths", "scene_b.jpg", "not at 3");
  EXPECT_ERROR(ImageFile(files / "picture.png").read_scaled({0, 0, 1, 1}, 4), "picture.png", "is not a JPEG");
}

TEST(ImageFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string jpeg = read_bytes(scenes / "scene_a.jpg");
  // A JPEG that is cut off anywhere is damaged, even if only the end marker is missing.
  for (std::size_t size = 3; size < jpeg.size(); size += 97) {
    write_bytes(folder / "short.jpg", jpeg.substr(0, size));
    EXPECT_ERROR(read_image(folder / "short.jpg"), "short.jpg cannot be decoded: ");
  }
  write_bytes(folder / "short.jpg", jpeg.substr(0, jpeg.size() - 2));
  EXPECT_ERROR(read_image(folder / "short.jpg"), "short.jpg cannot be decoded: ");
  write_bytes(folder / "none.jpg", "");
  EXPECT_ERROR(ImageFile(folder / "none.jpg"), "none.jpg cannot be decoded: it is empty");
  EXPECT_ERROR(ImageFile(folder / "missing.jpg"), "the image", "missing.jpg: cannot be opened: No such file");
  const ImageFile file(scenes / "scene_a.jpg");
  EXPECT_ERROR(file.read({30, 0, 8, 8}), "scene_a.jpg", "of 52 x 37 pixels has no window of 8 x 8 at 0, 30");
}

TEST(ImageFile, RefusesHeadersThatAskForTooMuch) {
  const TemporaryFolder folder;
  std::string jpeg = read_bytes(scenes / "scene_a.jpg");
  const auto frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (std::size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\xfe';  // 65,278 pixels high and wide
  write_bytes(folder / "huge.jpg", jpeg);
  EXPECT_ERROR(ImageFile(folder / "huge.jpg"), "huge.jpg cannot be decoded: it announces 65278 x 65278");
}

TEST(MaskFile, ReadsIndicesWhateverTheirBits) {
  const Golden golden("segmentation.safetensors");
  for (const char* name : {"mask.png", "bits4.png", "bits1.png", "interlaced.png", "grey8.png"}) {
    const MaskFile file(files / name);
    const Array& expected = golden["decoded/" + std::string(name)];
    testing::expect_same(expected, file.read(), name);
    testing::expect_same(expected.narrow(0, 0, 17), file.read(17), name);
  }
}

TEST(MaskFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string png = read_bytes(files / "mask.png");
  for (std::size_t size = 0; size < png.size(); size += 31) {
    write_bytes(folder / "short.png", png.substr(0, size));
    EXPECT_ERROR(MaskFile(folder / "short.png").read(), "the mask ", "short.png cannot be decoded: ");
  }
  std::string damaged = png;
  damaged[png.size() - 30] ^= 1;
  write_bytes(folder / "damaged.png", damaged);
  EXPECT_ERROR(MaskFile(folder / "damaged.png").read(), "damaged.png cannot be decoded: ");
  EXPECT_ERROR(MaskFile(files / "picture.png"), "picture.png is a PNG of colour type 2", "expected a palette");
  EXPECT_ERROR(MaskFile(files / "grey.jpg"), "grey.jpg cannot be decoded: it is not a PNG");
  EXPECT_ERROR(MaskFile(folder / "missing.png"), "missing.png", "No such file");
}

TEST(Png, WritesWhatItReads) {
  const TemporaryFolder folder;
  const Array picture = read_image(files / "picture.png"), mask = MaskFile(files / "mask.png").read();
  write_png(folder / "a.png", picture);
  testing::expect_same(picture.contiguous(), read_image(folder / "a.png").contiguous(), "picture");
  write_png(folder / "b.png", mask, voc_colours());
  testing::expect_same(mask, MaskFile(folder / "b.png").read(), "mask");
  write_png(folder / "b.png", mask.to(DType::i64), voc_colours());
  // A viewer that ignores the indices sees the colours.
  testing::expect_same(coloured(mask).contiguous(), read_image(folder / "b.png").contiguous(), "colours");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.png", "b.png"}));

  EXPECT_ERROR(encode_png(mask, std::span(voc_colours()).first(21)), "holds 255", "no colour in a palette of 21");
  EXPECT_ERROR(encode_png(mask), "must be (3, H, W) u8");
  EXPECT_ERROR(write_png(folder / "none/a.png", picture), "none");
}

TEST(VocColours, AreTheOfficialOnes) {
  const Golden golden("segmentation.safetensors");
  const auto expected = golden["palette"].to_vector<std::int64_t>();
  for (std::size_t i = 0; i < 256; ++i)
    for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(voc_colours()[i][c], expected[3 * i + c]) << i;
  EXPECT_EQ(voc_colours()[15], (Colour{192, 128, 128}));
  EXPECT_EQ(voc_colours()[255], (Colour{224, 224, 192}));
}

TEST(Overlay, BlendsAllButTheBackground) {
  Array picture = Array::empty({3, 1, 3}, DType::u8);
  picture.fill(100);
  const Array mask = Array::from(std::vector<std::int64_t>{0, 15, 255}, {1, 3});
  EXPECT_EQ(overlay(picture, mask, 0.5).permute({1, 2, 0}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{100, 100, 100, 146, 114, 114, 162, 162, 146}));
  testing::expect_same(picture, overlay(picture, mask, 0).contiguous(), "transparent");
  EXPECT_ERROR(overlay(picture, mask.transpose(0, 1)), "expected a picture (3, H, W) u8 and a mask (H, W)");
  EXPECT_ERROR(coloured(Array::from(std::vector<std::int64_t>{300}, {1, 1})), "holds 300");
}

Array pixels(const std::vector<std::int64_t>& numbers, const Shape& shape) {
  return Array::from(numbers, shape).to(DType::u8);
}

TEST(Outlined, DrawsTheInsideOfRegions) {
  Array picture = Array::empty({3, 5, 5}, DType::u8);
  picture.fill(100);
  const Array mask = pixels({0, 0, 0, 0, 0,   //
                             0, 1, 1, 1, 0,   //
                             0, 1, 1, 1, 15,  //
                             0, 1, 1, 1, 0,   //
                             0, 0, 0, 0, 0},
                            {5, 5});
  const Array drawn = outlined(picture, mask);
  for (std::int64_t y = 0; y < 5; ++y)
    for (std::int64_t x = 0; x < 5; ++x) {
      const auto label = static_cast<std::size_t>(mask.select(0, y).select(0, x).item());
      const bool is_line = label != 0 && !(y == 2 && x == 2);
      for (std::int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(drawn.select(0, c).select(0, y).select(0, x).item(),
                  is_line ? voc_colours()[label][static_cast<std::size_t>(c)] : 100)
            << y << ", " << x;
    }
  EXPECT_ERROR(outlined(picture, mask.narrow(0, 0, 4)), "of the same size");
}

TEST(Legend, NamesWhatThePictureShows) {
  Array picture = Array::empty({3, 40, 300}, DType::u8);
  picture.fill(100);
  Array mask = Array::empty({40, 300}, DType::u8);
  mask.fill(0);
  mask.narrow(1, 0, 30).fill(2);
  mask.narrow(1, 100, 60).fill(1);
  const Array drawn = with_legend(picture, mask, {"background", "dog", "cat"});
  testing::expect_same(picture, drawn.narrow(1, 0, 40).contiguous(), "the picture");
  // The larger region comes first, and each has its colour.
  const std::int64_t line = (drawn.dim(1) - 40) / 2;
  EXPECT_EQ(drawn.dim(2), 300);
  for (const std::size_t label : {std::size_t{1}, std::size_t{2}})
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_EQ(
          drawn.select(0, c).select(0, 40 + line * static_cast<std::int64_t>(label) - line / 2).select(0, 10).item(),
          voc_colours()[label][static_cast<std::size_t>(c)]);
  // Letters are black on white, and different names have different letters.
  const Array text = drawn.narrow(1, 40, line).narrow(2, 40, 200).contiguous();
  const auto values = text.to_vector<std::int64_t>();
  EXPECT_GT(std::ranges::count(values, 0), 300);
  EXPECT_EQ(std::ranges::count(values, 0) + std::ranges::count(values, 255), std::ssize(values));
  EXPECT_NE(with_legend(picture, mask, {"background", "cow", "cat"}).to_vector<std::int64_t>(),
            drawn.to_vector<std::int64_t>());
  // A mask with only background has no legend. A narrow picture becomes wider.
  mask.fill(0);
  EXPECT_EQ(with_legend(picture, mask, {}).shape(), picture.shape());
  mask.fill(200);
  EXPECT_GT(
      with_legend(picture.narrow(2, 0, 3), mask.narrow(1, 0, 3), std::vector<std::string>(201, "\xc3\xa4")).dim(2), 50);
}

TEST(SideBySide, FillsUpWithWhite) {
  const Array drawn = side_by_side({pixels({1, 2, 3}, {3, 1, 1}), pixels({4, 5, 6, 7, 8, 9}, {3, 2, 1})});
  EXPECT_EQ(drawn.shape(), (Shape{3, 2, 6}));
  const Array red = drawn.select(0, 0).contiguous();
  EXPECT_EQ(red.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1, 255, 255, 255, 255, 4, 255, 255, 255, 255, 255, 5}));
  EXPECT_ERROR(side_by_side({}), "at least one picture");
}

}  // namespace
}  // namespace tandem::data
