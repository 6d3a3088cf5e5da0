// Arguments that data sets, samplers, loaders and transforms refuse.
#include <tandem/core/ops.h>
#include <tandem/data/array_dataset.h>
#include <tandem/data/combine.h>
#include <tandem/data/idx.h>
#include <tandem/data/image_folder.h>
#include <tandem/data/images/image.h>
#include <tandem/data/loader.h>
#include <tandem/data/transforms.h>

#include <gtest/gtest.h>

#include <limits>

#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::TemporaryFolder;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

TEST(DataErrors, PartsOfADataSet) {
  const ArrayDataset four(zeros({4, 2}));
  using Sizes = std::vector<std::int64_t>;
  EXPECT_ERROR(random_split(four, Sizes{1, 2}), "random_split", "3 samples", "has 4");
  EXPECT_ERROR(random_split(four, Sizes{most, most, 6}), "random_split", std::to_string(most), "data set with 4");
  EXPECT_ERROR(random_split(four, Sizes{5, -1}), "random_split", "5");
  EXPECT_ERROR(random_split(four, std::vector<double>{0.5, 0.2}), "random_split", "0.7");
  EXPECT_ERROR(ConcatDataset({&four, nullptr}), "ConcatDataset", "null");
  EXPECT_ERROR(ArrayDataset{Array()}, "ArrayDataset");
}

TEST(DataErrors, Loader) {
  const ArrayDataset four(zeros({4, 2}));
  SequentialSampler sampler(4);
  Loader loader(four, sampler, {});
  loader.skip(-1);
  EXPECT_ERROR(loader.begin(), "Loader", "-1");
}

TEST(DataErrors, Transforms) {
  const ArrayDataset four(zeros({4, 3, 2, 2}));
  EXPECT_ERROR(Transformed(four, {to_float(), Transform()}), "Transformed", "empty function");
  EXPECT_ERROR(random_horizontal_flip(1.5), "random_horizontal_flip", "1.5");
  EXPECT_ERROR(random_crop(2, 2, most), "random_crop", std::to_string(most));
  EXPECT_ERROR(Transformed(four, {random_crop(3, 3)}).sample(0), "random_crop", "2 x 2", "3 x 3");
}

TEST(DataErrors, Files) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read_image(folder.path()), folder.path().string(), "is not a regular file");
  EXPECT_ERROR(write_idx(folder / "a", zeros({2})), "IDX file", "u8", "f32");
  EXPECT_ERROR(ImageFolder{folder.path()}, folder.path().string(), "no folders");
  std::filesystem::create_directory(folder / "class");
  testing::write_bytes(folder / "class/cut.png", "\x89PNG\r\n\x1a\n and no more");
  const ImageFolder images(folder.path());
  EXPECT_ERROR(images.sample(0), "cut.png", "cannot be decoded");
  EXPECT_ERROR(images.file(1), "sample 1", "there are 1");
}

}  // namespace
}  // namespace tandem::data
