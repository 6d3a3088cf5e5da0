#include <tandem/data/mnist.h>

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <numeric>

#include "support/idx_files.h"
#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::gzip;
using testing::idx_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

constexpr std::size_t pixels = 28 * 28;

// Image i holds the values i, i+1, ... modulo 256, and its label is i modulo 10.
std::string images(std::uint32_t count) {
  std::string data;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t p = 0; p < pixels; ++p) data += static_cast<char>(i + p);
  }
  return idx_bytes({count, 28, 28}, data);
}
std::string labels(std::uint32_t count) {
  std::string data;
  for (std::uint32_t i = 0; i < count; ++i) data += static_cast<char>(i % 10);
  return idx_bytes({count}, data);
}

const char* const train_images = "train-images-idx3-ubyte";
const char* const train_labels = "train-labels-idx1-ubyte";

std::string error_with(const std::string& image_bytes, const std::string& label_bytes) {
  TemporaryFolder folder;
  write_bytes(folder / train_images, image_bytes);
  write_bytes(folder / train_labels, label_bytes);
  const std::string text = testing::error_of([&] { Mnist(folder.path(), Split::train); });
  testing::expect_parts(text, {folder.path().string()});
  return text;
}

TEST(Mnist, GathersAndScales) {
  TemporaryFolder folder;
  write_bytes(folder / train_images, images(12));
  write_bytes(folder / train_labels, labels(12));
  const Mnist mnist(folder.path(), Split::train);
  EXPECT_EQ(mnist.size(), 12);
  const std::vector<std::int64_t> indices = {11, 0, 11};
  const Batch batch = mnist.get(indices);
  ASSERT_EQ(batch.inputs.shape(), (Shape{3, 1, 28, 28}));
  EXPECT_EQ(batch.inputs.dtype(), DType::f32);
  EXPECT_TRUE(batch.inputs.is_channels_last());
  ASSERT_EQ(batch.targets.shape(), Shape{3});
  EXPECT_EQ(batch.targets.dtype(), DType::i64);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(batch.targets.data<std::int64_t>()[i], indices[i] % 10);
    for (std::size_t p = 0; p < pixels; ++p) {
      const auto value = static_cast<float>((static_cast<std::size_t>(indices[i]) + p) % 256);
      ASSERT_EQ(batch.inputs.data<float>()[i * pixels + p], value / 255.0f);
    }
  }
}

TEST(Mnist, ScalesAsTorchvisionToTheBit) {
  TemporaryFolder folder;
  write_bytes(folder / train_images, images(1));
  write_bytes(folder / train_labels, labels(1));
  const std::int64_t first = 0;
  const Batch batch = Mnist(folder.path(), Split::train).get({&first, 1});
  // torch.arange(256, dtype=torch.uint8).to(torch.float32).div(255)
  EXPECT_EQ(testing::sha256_of<float>({batch.inputs.data<float>(), 256}),
            "010413efe9fc4438fee48de66c4d09f377b28af6a9fe2522201e8c1dbb831fc8");
}

TEST(Mnist, EmptyBatchAndWrongIndices) {
  TemporaryFolder folder;
  write_bytes(folder / train_images, images(2));
  write_bytes(folder / train_labels, labels(2));
  const Mnist mnist(folder.path(), Split::train);
  EXPECT_EQ(mnist.get({}).inputs.shape(), (Shape{0, 1, 28, 28}));
  for (const std::int64_t wrong : {-1, 2}) {
    EXPECT_ERROR(mnist.get({&wrong, 1}), "sample " + std::to_string(wrong), "there are 2");
  }
}

TEST(Mnist, FindsItsFiles) {
  const auto check = [](const std::string& below, const std::string& suffix) {
    TemporaryFolder folder;
    const fs::path where = folder.path() / below;
    fs::create_directories(where);
    const auto pack = [&](const std::string& bytes) { return suffix.empty() ? bytes : gzip(bytes); };
    write_bytes(where / (train_images + suffix), pack(images(3)));
    write_bytes(where / (train_labels + suffix), pack(labels(3)));
    write_bytes(where / ("t10k-images-idx3-ubyte" + suffix), pack(images(2)));
    write_bytes(where / ("t10k-labels-idx1-ubyte" + suffix), pack(labels(2)));
    // The folder may be the one that torchvision gets, or a folder below it.
    for (fs::path given = where;; given = given.parent_path()) {
      EXPECT_EQ(Mnist(given, Split::train).size(), 3) << given;
      EXPECT_EQ(Mnist(given, Split::test).size(), 2) << given;
      if (given == folder.path()) break;
    }
  };
  for (const char* below : {"", "MNIST/raw"}) {
    for (const char* suffix : {"", ".gz"}) check(below, suffix);
  }
}

// Kaggle's archive has each file twice: once in a folder of the same name, and once with a dot in its name instead of
// the hyphen before "idx".
TEST(Mnist, FindsItsFilesAsKaggleHasThem) {
  for (const std::string way : {".gz", "inside", "dotted"}) {
    TemporaryFolder folder;
    for (const auto& [name, bytes] : {std::pair(std::string(train_images), images(3)), {train_labels, labels(3)}}) {
      fs::create_directories(folder / name);
      std::string dotted = name;
      dotted.replace(dotted.find("-idx"), 1, ".");
      if (way == ".gz") write_bytes(folder / (name + ".gz"), gzip(bytes));
      else write_bytes(way == "dotted" ? folder / dotted : folder / name / name, bytes);
    }
    EXPECT_EQ(Mnist(folder.path(), Split::train).size(), 3) << way;
    EXPECT_ERROR(Mnist(folder.path(), Split::test), "neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz");
  }
}

TEST(Mnist, MissingFolderOrFile) {
  TemporaryFolder folder;
  EXPECT_ERROR(Mnist(folder / "none", Split::train), (folder / "none").string(), "does not exist", "four MNIST files");
  write_bytes(folder / "file", "x");
  EXPECT_ERROR(Mnist(folder / "file", Split::train), "is a file, expected a folder");
  EXPECT_ERROR(Mnist(folder / "file" / "below", Split::train), (folder / "file").string(), "");
  EXPECT_ERROR(Mnist(folder.path(), Split::test), folder.path().string(), "t10k-images-idx3-ubyte", "MNIST/raw");
  write_bytes(folder / train_images, images(1));
  EXPECT_ERROR(Mnist(folder.path(), Split::train), "neither train-labels-idx1-ubyte");
}

TEST(Mnist, UnreadableFolderOrFile) {
  TemporaryFolder folder;
  write_bytes(folder / train_images, images(1));
  write_bytes(folder / train_labels, labels(1));
  // root may read anything, so the test temporarily uses the file system as another user
  const bool is_root = ::geteuid() == 0;
  fs::permissions(folder / train_labels, fs::perms::none);
  fs::permissions(folder.path(), fs::perms(0755));
  if (is_root) ::setfsuid(65534);
  EXPECT_ERROR(Mnist(folder.path(), Split::train), train_labels, "Permission denied",
               "correct the path or its permissions");
  if (is_root) ::setfsuid(0);
  fs::permissions(folder.path(), fs::perms::none);
  if (is_root) ::setfsuid(65534);
  EXPECT_ERROR(Mnist(folder.path(), Split::train), folder.path().string(), "Permission denied");
  if (is_root) ::setfsuid(0);
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(Mnist, BadContent) {
  testing::expect_parts(error_with(images(3), labels(2)),
                        {"holds 3 images", "holds 2 labels", train_images, train_labels});
  testing::expect_parts(error_with(images(2), idx_bytes({2}, "\1\12")),
                        {train_labels, "label 1 is 10", "expected 0 to 9"});
  testing::expect_parts(error_with(images(0), labels(0)), {"holds no images"});
  testing::expect_parts(error_with(labels(2), labels(2)), {train_images, "(2)", "expected (N, 28, 28)"});
  testing::expect_parts(error_with(idx_bytes({1, 28, 27}, std::string(28 * 27, 'x')), labels(1)), {"(1, 28, 27)"});
  testing::expect_parts(error_with(images(2), idx_bytes({2, 1}, "\1\1")), {train_labels, "expected (N)"});
  testing::expect_parts(error_with(images(2).substr(0, 1000), labels(2)), {train_images, "truncated"});
  testing::expect_parts(error_with(images(2), labels(2) + "x"), {train_labels, "more than the 2 bytes"});
}

TEST(Mnist, TheBundledSampleIsTheBeginningOfMnist) {
  const fs::path folder = fs::path(TANDEM_SOURCE_DIR) / "data" / "sample";
  const Mnist train(folder, Split::train);
  const Mnist test(folder, Split::test);
  EXPECT_EQ(train.size(), 10000);
  EXPECT_EQ(test.size(), 2000);
  const auto begins_with = [](const Mnist& mnist, std::vector<std::uint8_t> expected) {
    const auto* labels = mnist.labels().data<std::uint8_t>();
    EXPECT_EQ(std::vector<std::uint8_t>(labels, labels + expected.size()), expected);
  };
  begins_with(train, {5, 0, 4, 1, 9, 2, 1, 3, 1, 4});
  begins_with(test, {7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  // SHA-256 of everything after the header in each original file.
  EXPECT_EQ(testing::sha256_of<std::uint8_t>({train.images().data<std::uint8_t>(), train.images().bytes()}),
            "2f7182bf021ffc5c1f62db987487f14d899b5c639f421a80f3095affc09a7db2");
  EXPECT_EQ(testing::sha256_of<std::uint8_t>({test.images().data<std::uint8_t>(), test.images().bytes()}),
            "170ff6838184f9ec6aaa1bbb5932ed59b7463585418d2da081525165ef21edae");
}

}  // namespace
}  // namespace tandem::data
