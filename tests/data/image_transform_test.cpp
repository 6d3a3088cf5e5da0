// Segmentation: transforms of pictures and masks, and metrics.
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>
#include <tandem/data/epoch.h>
#include <tandem/data/images/image_png.h>
#include <tandem/data/loader.h>
#include <tandem/data/sampler.h>
#include <tandem/data/segmentation/segmentation_classes.h>
#include <tandem/data/segmentation/segmentation_metrics.h>
#include <tandem/data/segmentation/segmentation_picture.h>
#include <tandem/data/segmentation/segmentation_transform.h>
#include <tandem/data/segmentation/voc.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::expect_same;
using testing::Golden;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

const fs::path here = fs::path(TANDEM_SOURCE_DIR) / "tests/data";
constexpr float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};

// Returns the normalised values of grey levels (3, H, W).
Array normalized(const Array& levels) {
  const Array result = levels.to(DType::f32).contiguous();
  const std::int64_t pixels = levels.dim(1) * levels.dim(2);
  auto* value = result.data<float>();
  for (std::int64_t i = 0; i < 3 * pixels; ++i, ++value)
    *value = (*value / 255.0f - mean[i / pixels]) / deviation[i / pixels];
  return result;
}

// The largest difference between two normalised pictures, in grey levels.
double levels_apart(const Array& a, const Array& b) {
  EXPECT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(x[i]) - y[i]) * 255 * deviation[i * 3 / x.size()]);
  return largest;
}

SegmentationFiles one_pair(const fs::path& image, const fs::path& mask) {
  return SegmentationFiles({{"pair", image, mask}}, 21);
}

// A transform that changes nothing when a geometry is given.
SegmentationTransform plain() { return SegmentationTransform::evaluation(1); }

TEST(SegmentationTransform, EqualsTorchvisionForGivenNumbers) {
  const Golden golden("segmentation.safetensors");
  int cases = 0;
  for (const auto& [name, values] : golden.cases()) {
    if (!values.is_object() || !values.contains("crop")) continue;
    ++cases;
    const SegmentationFiles files =
        one_pair(here / values["image"].get<std::string>(), here / values["mask"].get<std::string>());
    const Array &levels = golden[name + "/image"], &labels = golden[name + "/mask"];
    const SegmentationGeometry geometry{values["height"],
                                        values["width"],
                                        values["flip"] == 1,
                                        {values["top"], values["left"], levels.dim(1), levels.dim(2)}};
    const Sample sample = PreparedSegmentation(files, plain()).sample(0, geometry);
    expect_same(labels.to(DType::i64), sample.target, name);
    ASSERT_EQ(sample.input.shape(), levels.shape()) << name;
    // Pictures in a lossless format are bitwise identical.
    if (files.pair(0).image.extension() == ".png") expect_same(normalized(levels), sample.input.contiguous(), name);
    else  // Other libraries upsample colours differently if they are stored at half the size.
      EXPECT_LE(levels_apart(normalized(levels), sample.input), ImageFile(files.pair(0).image).can_scale() ? 1.001 : 20)
          << name;
    if (name == "twice") expect_same(golden["normalized"], sample.input.contiguous(), "normalised by torchvision");
  }
  EXPECT_EQ(cases, 11);
}

TEST(SegmentationTransform, ResizesAndCutsTheMiddleAsTorchvision) {
  const Golden golden("segmentation.safetensors");
  SampleRandom unused(0, 0, 0);
  for (const auto& row : golden.cases().at("geometry")) {
    const std::int64_t height = row["height"], width = row["width"], side = row["short"];
    const SegmentationGeometry whole = SegmentationTransform::evaluation(side).draw(height, width, unused);
    EXPECT_EQ(whole.resized_height, row["resized_height"]) << row;
    EXPECT_EQ(whole.resized_width, row["resized_width"]) << row;
    EXPECT_EQ(whole.window, (ImageWindow{0, 0, whole.resized_height, whole.resized_width}));
    const SegmentationGeometry middle = SegmentationTransform::middle(side).draw(height, width, unused);
    EXPECT_EQ(middle.window, (ImageWindow{row["top"], row["left"], side, side})) << row;
    EXPECT_FALSE(middle.flip);
  }
}

TEST(SegmentationTransform, DrawsEverythingThatCanBe) {
  const SegmentationTransform transform = SegmentationTransform::train(40, 30);
  std::vector<int> shorts(81, 0);
  int flips = 0;
  std::int64_t largest_top = 0, largest_left = 0;
  constexpr int count = 8000;
  for (int i = 0; i < count; ++i) {
    SampleRandom random(3, 0, i);
    const SegmentationGeometry g = transform.draw(30, 45, random);
    ASSERT_GE(g.resized_height, 20);
    ASSERT_LE(g.resized_height, 80);
    ++shorts[static_cast<std::size_t>(g.resized_height)];
    EXPECT_EQ(g.resized_width, g.resized_height * 3 / 2);
    flips += g.flip;
    ASSERT_LE(g.window.top, std::max<std::int64_t>(0, g.resized_height - 30));
    ASSERT_LE(g.window.left, std::max<std::int64_t>(0, g.resized_width - 30));
    largest_top = std::max(largest_top, g.window.top);
    largest_left = std::max(largest_left, g.window.left);
  }
  for (std::size_t side = 20; side <= 80; ++side) EXPECT_GT(shorts[side], 0) << side;  // 131 on average
  EXPECT_NEAR(flips, count / 2, 200);
  EXPECT_GT(largest_top, 45);
  EXPECT_GT(largest_left, 80);
}

// A picture whose red encodes the class and whose green encodes the column, with a mask of blocks.
class Blocks : public TemporaryFolder {
 public:
  Blocks() {
    const Array pixels = Array::empty({40, 60, 3}, DType::u8), labels = Array::empty({40, 60}, DType::u8);
    for (int y = 0; y < 40; ++y)
      for (int x = 0; x < 60; ++x) {
        const int label = x / 20 + 3 * (y / 20);  // 0 to 5
        labels.data<std::uint8_t>()[y * 60 + x] = static_cast<std::uint8_t>(label);
        auto* pixel = pixels.data<std::uint8_t>() + 3 * (y * 60 + x);
        pixel[0] = static_cast<std::uint8_t>(40 * label + 20);
        pixel[1] = static_cast<std::uint8_t>(4 * x);
        pixel[2] = 255;
      }
    write_png(path() / "image.png", pixels.permute({2, 0, 1}));
    write_png(path() / "mask.png", labels, voc_colours());
  }
  SegmentationFiles files() const { return one_pair(path() / "image.png", path() / "mask.png"); }
};

TEST(SegmentationTransform, PictureAndMaskAgree) {
  const Blocks blocks;
  const SegmentationFiles files = blocks.files();
  for (const std::int64_t crop : {7, 23, 40, 64, 150}) {  // smaller than the pictures, larger, and between their sides
    PreparedSegmentation prepared(files, SegmentationTransform::train(40, crop));
    int seen = 0;
    for (int epoch = 0; epoch < 12; ++epoch) {
      const EpochScope scope({.number = epoch});
      const Sample sample = prepared.sample(0);
      ASSERT_EQ(sample.input.shape(), (Shape{3, crop, crop}));
      ASSERT_EQ(sample.target.shape(), (Shape{crop, crop}));
      const Array pixels = sample.input.permute({1, 2, 0}).contiguous();
      const auto* values = pixels.data<float>();
      const auto* labels = sample.target.data<std::int64_t>();
      int wrong = 0;
      const auto level = [&](std::int64_t i, int c) {
        return std::lround(255 * (values[3 * i + c] * deviation[c] + mean[c]));
      };
      for (std::int64_t i = 0; i < crop * crop; ++i) {
        const auto red = level(i, 0), green = level(i, 1), blue = level(i, 2);
        if (labels[i] == 255) {
          EXPECT_TRUE(red == 0 && green == 0 && blue == 0)
              << "padding is black, got " << red << ' ' << green << ' ' << blue;
          continue;
        }
        ++seen;
        EXPECT_EQ(blue, 255);
        // Where two blocks meet, their colours are blended.
        wrong += std::abs(red - (40 * labels[i] + 20)) > 20;
      }
      EXPECT_LE(wrong, crop * 12);
    }
    EXPECT_GT(seen, 0);
  }
}

TEST(SegmentationTransform, MirrorsPictureAndMask) {
  const Blocks blocks;
  const SegmentationFiles files = blocks.files();
  const PreparedSegmentation prepared(files, plain());
  for (const std::int64_t height : {25, 40, 71}) {
    const std::int64_t width = height * 3 / 2;
    const auto sample = [&](bool flip, const ImageWindow& window) {
      return prepared.sample(0, {height, width, flip, window});
    };
    const Sample whole = sample(false, {0, 0, height, width});
    const Sample mirrored = sample(true, {0, 0, height, width});
    for (std::int64_t x = 0; x < width; ++x) {
      expect_same(whole.input.select(2, x).contiguous(), mirrored.input.select(2, width - 1 - x).contiguous(), "image");
      expect_same(whole.target.select(1, x).contiguous(), mirrored.target.select(1, width - 1 - x).contiguous(),
                  "mask");
    }
    // A window shows its part of the whole picture, and void beyond the picture.
    const ImageWindow window{5, 9, height, width};
    const Sample part = sample(true, window);
    expect_same(mirrored.input.slice(1, 5).slice(2, 9).contiguous(),
                part.input.slice(1, 0, height - 5).slice(2, 0, width - 9).contiguous(), "window");
    expect_same(mirrored.target.slice(0, 5).slice(1, 9).contiguous(),
                part.target.slice(0, 0, height - 5).slice(1, 0, width - 9).contiguous(), "window");
    for (const auto label : part.target.slice(0, height - 5).to_vector<std::int64_t>()) ASSERT_EQ(label, 255);
    for (const auto label : part.target.slice(1, width - 9).to_vector<std::int64_t>()) ASSERT_EQ(label, 255);
  }
}

TEST(SegmentationTransform, IsTheSameWhateverTheWorkers) {
  const VocSegmentation files(here / "voc_sample", "2012", "trainval");
  PreparedSegmentation prepared(files, SegmentationTransform::train(48, 40), 11);
  const auto epoch = [&](int workers, std::int64_t batch_size, std::int64_t number = 0) {
    SequentialSampler sampler(prepared.size());
    Loader loader(prepared, sampler, {.batch_size = batch_size, .workers = workers});
    std::vector<float> pixels;
    for (auto& [images, labels] : loader.epoch(number)) {
      EXPECT_TRUE(images.is_channels_last());
      for (std::int64_t i = 0; i < images.dim(0); ++i)
        for (const Array& part : {images.select(0, i).permute({1, 2, 0}), labels.select(0, i)}) {
          const auto values = part.to_vector<float>();
          pixels.insert(pixels.end(), values.begin(), values.end());
        }
    }
    return pixels;
  };
  const auto once = epoch(0, 1);
  EXPECT_EQ(once.size(), static_cast<std::size_t>(3 * 40 * 40 * 4));
  EXPECT_EQ(once, epoch(3, 1));
  EXPECT_EQ(once, epoch(2, 3));
  EXPECT_NE(once, epoch(0, 1, 1));
  EXPECT_EQ(once, epoch(0, 3));
  EXPECT_EQ(epoch(2, 3, 1), epoch(0, 1, 1));
  const PreparedSegmentation other(files, SegmentationTransform::train(48, 40), 12);
  const std::vector<std::int64_t> all{0, 1, 2};
  EXPECT_NE(prepared.get(all).inputs.to_vector<float>(), other.get(all).inputs.to_vector<float>());
}

// The mean difference between scaled and full decoding of the whole picture at 1/divisor of its size, in grey levels.
double scaled_apart(const SegmentationFiles& files, std::int64_t index, int divisor) {
  SegmentationTransform scaled = plain();
  scaled.scaled_decode = true;
  const Sample stored = files.sample(index);
  const std::int64_t height = stored.input.dim(1) / divisor, width = stored.input.dim(2) / divisor;
  const SegmentationGeometry geometry{height, width, index % 2 == 1, {0, 0, height, width}};
  const Sample a = PreparedSegmentation(files, plain()).sample(index, geometry),
               b = PreparedSegmentation(files, scaled).sample(index, geometry);
  expect_same(a.target, b.target, "mask");
  const auto x = a.input.to_vector<float>(), y = b.input.to_vector<float>();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::abs(x[i] - y[i]) * 255 * deviation[i * 3 / x.size()];
  return sum / static_cast<double>(x.size());
}

TEST(SegmentationTransform, ScaledDecodingStaysNear) {
  const VocSegmentation files(here / "voc_sample", "2012", "trainval");
  // These pictures consist of the finest stripes. A filter leaves some of the stripes, and scaled decoding leaves none.
  for (std::int64_t i = 0; i < files.size(); ++i)
    for (const int divisor : {2, 3, 5, 9}) EXPECT_LT(scaled_apart(files, i, divisor), 20) << i << ", 1/" << divisor;
}

TEST(SegmentationTransform, ScaledDecodingStaysNearOnRealPictures) {
  const char* root = std::getenv("TANDEM_VOC");
  if (root == nullptr)
    GTEST_SKIP() << "NOT RUN: TANDEM_VOC does not name a folder with VOCdevkit/VOC2012, to decode real pictures";
  const VocSegmentation files(root);
  for (const int divisor : {2, 3, 4, 5, 7, 8}) {
    double sum = 0;
    for (std::int64_t i = 0; i < files.size(); ++i) sum += scaled_apart(files, i, divisor);
    EXPECT_LT(sum / static_cast<double>(files.size()), 3.5) << "1/" << divisor;
  }
}

TEST(SegmentationTransform, PreparesPicturesToPredict) {
  const VocSegmentation files(here / "voc_sample", "2012", "val");
  for (const auto& transform : {SegmentationTransform::evaluation(77), SegmentationTransform::middle(32)}) {
    const PreparedSegmentation prepared(files, transform);
    const Sample sample = prepared.sample(0);
    expect_same(sample.input.contiguous(),
                PreparedSegmentation::prepare(ImageFile(files.pair(0).image), transform).contiguous(), "picture");
    const std::vector<std::int64_t> first{0};
    const Batch batch = prepared.get(first);
    expect_same(sample.input.contiguous(), batch.inputs.select(0, 0).contiguous(), "batch");
    expect_same(sample.target, batch.targets.select(0, 0).contiguous(), "batch");
  }
  // Denormalising gives the original 8-bit values.
  const Array picture =
      PreparedSegmentation::prepare(ImageFile(here / "image_files/picture.png"), SegmentationTransform::evaluation(41));
  expect_same(ImageFile(here / "image_files/picture.png").read().contiguous(), denormalized(picture).contiguous(),
              "denormalised");
}

TEST(SegmentationTransform, ResizesInTheRangeGiven) {
  const auto range = [](const SegmentationTransform& t) { return std::pair(t.min_short, t.max_short); };
  EXPECT_EQ(range(SegmentationTransform::train(97, 30)), std::pair(std::int64_t{48}, std::int64_t{194}));
  EXPECT_EQ(range(SegmentationTransform::train(97, 30, 1, 1)), std::pair(std::int64_t{97}, std::int64_t{97}));
  EXPECT_EQ(range(SegmentationTransform::train(97, 30, 0.25, 1.75)), std::pair(std::int64_t{24}, std::int64_t{169}));
}

// The expected sizes are those of torchvision.transforms.functional.resize(size=520, max_size=2048).
TEST(SegmentationTransform, LimitsTheLongSide) {
  SampleRandom unused(0, 0, 0);
  const auto size = [&](std::int64_t height, std::int64_t width) {
    const auto geometry = SegmentationTransform::evaluation(520, 2048).draw(height, width, unused);
    return std::pair(geometry.resized_height, geometry.resized_width);
  };
  using Size = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(size(375, 500), Size(520, 693));
  EXPECT_EQ(size(100, 393), Size(520, 2043));
  EXPECT_EQ(size(1000, 5000), Size(409, 2048));
  EXPECT_EQ(size(5000, 1000), Size(2048, 409));
  EXPECT_EQ(size(1, 3000), Size(1, 2048));
}

TEST(SegmentationTransform, KeepsMasksAsTheyAre) {
  const VocSegmentation files(here / "voc_sample", "2012", "val");
  SegmentationTransform transform = SegmentationTransform::evaluation(33);
  const Sample resized = PreparedSegmentation(files, transform).sample(0);
  transform.keeps_masks = true;
  const Sample kept = PreparedSegmentation(files, transform).sample(0);
  expect_same(resized.input, kept.input, "picture");
  expect_same(MaskFile(files.pair(0).mask).read().to(DType::i64), kept.target, "mask");
  EXPECT_NE(resized.target.shape(), kept.target.shape());
  transform.crop = 8;
  EXPECT_ERROR(PreparedSegmentation(files, transform), "keeps_masks can't be combined with cropping");
}

// classes_at() never holds all of the resized logits.
TEST(SegmentationClasses, AreThoseOfTheResizedLogits) {
  Generator generator(3);
  for (const auto& [h, w, height, width] : {std::array<std::int64_t, 4>{13, 17, 13, 17},
                                            {13, 17, 300, 211},
                                            {13, 17, 5, 6},
                                            {1, 40, 1, 3000},
                                            {40, 1, 3000, 1},
                                            {7, 9, 500, 4100}}) {
    const Array logits = ops::randn({1, 21, h, w}, DType::f32, {}, generator);
    const Array whole = ops::resize(logits, Extent(height, width), {.mode = Interpolation::bilinear});
    const Array expected = ops::argmax(whole, 1).select(0, 0).contiguous();
    const Array found = classes_at(logits, height, width);
    EXPECT_EQ(found.dtype(), DType::u8);
    ASSERT_EQ(found.shape(), expected.shape());
    // If the classes differ, both are equally likely except for rounding.
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t a = found.data<std::uint8_t>()[y * width + x],
                           b = expected.data<std::int64_t>()[y * width + x];
        if (a == b) continue;
        const Array pixel = whole.select(0, 0).select(1, y).select(1, x);
        ASSERT_NEAR(pixel.select(0, a).item(), pixel.select(0, b).item(), 1e-5) << y << ", " << x;
      }
    }
  }
  EXPECT_ERROR(classes_at(Array::empty({2, 21, 4, 4}), 8, 8), "expected logits (1, C, h, w)");
  EXPECT_ERROR(classes_at(Array::empty({1, 21, 4, 4}), 0, 8), "a size of at least 1 x 1");
}

// With 24 megapixels and 21 classes, the resized logits would take 2 GB.
TEST(SegmentationClasses, NeedLittleMemory) {
  Generator generator(3);
  const Array logits = ops::randn({1, 21, 20, 30}, DType::f32, {}, generator);
  classes_at(logits, 100, 4000);  // allocates the blocks that a stripe needs
  const auto before = memory_stats();
  const Array found = classes_at(logits, 1000, 4000);
  const auto after = memory_stats();
  EXPECT_LT(after.system_bytes - before.system_bytes, std::uint64_t{40} << 20);
  EXPECT_EQ(found.shape(), (Shape{1000, 4000}));
}

TEST(SegmentationTransform, SaysWhatIsWrong) {
  EXPECT_ERROR(SegmentationTransform::train(1, 10), "base of 1 ", "short sides of 0.5 to 2");
  EXPECT_ERROR(SegmentationTransform::train(40, 10, 1.5, 1), "min_scale 1.5 to max_scale 1", "60 to 40");
  EXPECT_ERROR(SegmentationTransform::train(40, 10, 1, 1e300), "40 to 4e+301", "1 to 16384");
  EXPECT_ERROR(SegmentationTransform::train(40, 10, NAN, 1), "min_scale nan");
  EXPECT_ERROR(SegmentationTransform::train(40, 0), "the crop is 0, expected at least 1");
  EXPECT_ERROR(SegmentationTransform::middle(0), "the crop is 0, expected at least 1");
  SampleRandom unused(0, 0, 0);
  EXPECT_ERROR(SegmentationTransform::evaluation(520).draw(1, 1'000'000, unused), "1000000 x 1", "too long");
  const Blocks blocks;
  const SegmentationFiles files = blocks.files();
  SegmentationTransform wrong = plain();
  wrong.max_short = 0;
  EXPECT_ERROR(PreparedSegmentation(files, wrong), "can't be resized to 1 to 0");
  const PreparedSegmentation prepared(files, plain());
  EXPECT_ERROR(prepared.sample(0, {40, 60, false, {40, 0, 8, 8}}), "a window of 8 x 8 at 0, 40");
  EXPECT_ERROR(prepared.sample(1), "sample 1 was requested, there are 1");
  EXPECT_ERROR(PreparedSegmentation::prepare(ImageFile(blocks / "image.png"), SegmentationTransform::train(40, 8)),
               "must not be random");
  EXPECT_ERROR(SegmentationFiles({}, 21), "at least one pair");

  const SegmentationFiles mixed = one_pair(blocks / "image.png", here / "image_files/mask.png");
  EXPECT_ERROR(PreparedSegmentation(mixed, plain()).sample(0), "image.png is 40 high and 60 wide",
               "mask.png is 41 high and 53 wide");
  const SegmentationFiles few({{"pair", blocks / "image.png", blocks / "mask.png"}}, 4);
  EXPECT_ERROR(PreparedSegmentation(few, SegmentationTransform::evaluation(40)).sample(0),
               "mask.png holds the label 4, expected 0 to 3 or 255 (void)");
}

TEST(ConfusionMatrix, EqualsTheReference) {
  const Golden golden("segmentation.safetensors");
  const auto& expected = golden.cases().at("metrics");
  const Array &prediction = golden["metrics/prediction"], &target = golden["metrics/target"];
  ConfusionMatrix matrix(6);
  matrix.add(prediction.narrow(0, 0, 1), target.narrow(0, 0, 1));
  ConfusionMatrix other(6);  // another rank's
  other.add(prediction.select(0, 1).to(DType::u8), target.select(0, 1).to(DType::u8));
  for (std::int64_t i = 0; i < 36; ++i)
    matrix.counts().data<std::int64_t>()[i] += other.counts().data<std::int64_t>()[i];
  expect_same(golden["metrics/counts"], matrix.counts(), "counts");
  EXPECT_DOUBLE_EQ(matrix.pixel_accuracy(), expected["pixel_accuracy"].get<double>());
  EXPECT_DOUBLE_EQ(matrix.mean_iou(), expected["mean_iou"].get<double>());
  for (std::size_t c = 0; c < 6; ++c) EXPECT_DOUBLE_EQ(matrix.class_iou()[c], expected["iou"][c].get<double>());
}

TEST(ConfusionMatrix, LeavesOutAbsentClasses) {
  ConfusionMatrix matrix(4);
  EXPECT_TRUE(std::isnan(matrix.mean_iou()) && std::isnan(matrix.pixel_accuracy()));
  const auto labels = [](const std::vector<std::int64_t>& values) {
    return Array::from(values, {static_cast<std::int64_t>(values.size())});
  };
  matrix.add(labels({0, 0, 1, 3, 2}), labels({0, 0, 0, 3, 255}));
  const auto iou = matrix.class_iou();
  EXPECT_DOUBLE_EQ(iou[0], 2.0 / 3);
  EXPECT_DOUBLE_EQ(iou[1], 0);
  EXPECT_TRUE(std::isnan(iou[2]));
  EXPECT_DOUBLE_EQ(iou[3], 1);
  EXPECT_DOUBLE_EQ(matrix.mean_iou(), 5.0 / 9);
  EXPECT_DOUBLE_EQ(matrix.pixel_accuracy(), 0.75);
  const auto accuracy = matrix.class_accuracy();
  EXPECT_DOUBLE_EQ(accuracy[0], 2.0 / 3);
  EXPECT_TRUE(std::isnan(accuracy[1]) && std::isnan(accuracy[2]));
  EXPECT_DOUBLE_EQ(accuracy[3], 1);
  EXPECT_EQ(matrix.table({"sky", "car", "dog", "tree"}),
            "class                  IoU  accuracy    pixels  most often taken for\n"
            "sky                66.67 %   66.67 %   75.00 %  car (33.33 %)\n"
            "car                 0.00 %         -    0.00 %  \n"
            "tree              100.00 %  100.00 %   25.00 %  \n");
  EXPECT_ERROR(matrix.table({"sky"}), "expected 4 names, got 1");
  const Array before = matrix.counts().clone();
  EXPECT_ERROR(matrix.add(labels({0, 1}), labels({1, 4})), "a target is 4, expected 0 to 3 or 255");
  EXPECT_ERROR(matrix.add(labels({0, 5}), labels({1, 1})), "a prediction is 5, expected 0 to 3");
  EXPECT_ERROR(matrix.add(labels({0}), labels({1, 1})), "must have the same shape");
  EXPECT_ERROR(matrix.add(Array::empty({1}), labels({1})), "must be classes as i64 or u8, got f32");
  expect_same(before, matrix.counts(), "counts after errors");
  matrix.reset();
  EXPECT_TRUE(std::isnan(matrix.pixel_accuracy()));
}

}  // namespace
}  // namespace tandem::data
