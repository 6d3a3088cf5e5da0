#include <tandem/data/transforms.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::counting;

Sample after(const Transform& transform, Sample sample) {
  SampleRandom random(0, 0, 0);
  return transform(std::move(sample), random);
}

// torch: (torch.arange(...) * factor % modulus).reshape(shape)
Array pattern(const Shape& shape, int factor, int modulus, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i) * factor % modulus);
  return Array::from(values, shape).to(dtype);
}

void expect_near(const Array& found, const std::vector<float>& expected, float tolerance) {
  const auto values = found.to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values.at(i), expected[i], tolerance) << i;
}

// The expected values are those of torch.nn.functional.interpolate(mode="bilinear", antialias=True), which
// torchvision.transforms.Resize uses.
TEST(Resize, AveragesAsTorchvision) {
  const Sample image{pattern({1, 5, 6}, 7, 31, DType::f32), {}};
  const Array smaller = after(resize(3, 2), image).input;
  ASSERT_EQ(smaller.shape(), (Shape{1, 3, 2}));
  expect_near(smaller, {11.803571f, 14.910715f, 16.541668f, 16.388889f, 14.821427f, 15.714287f}, 1e-4f);
  const Array larger = after(resize(6, 7), image).input;
  ASSERT_EQ(larger.shape(), (Shape{1, 6, 7}));
  expect_near(larger, {0, 5.5f, 11.5f, 17.5f, 23.5f, 22.857140f, 4, 8.25f}, 1e-4f);
  // Bytes are rounded once. torch rounds them after each of two passes.
  const Array bytes = after(resize(2, 3), {pattern({2, 4, 5}, 37, 256, DType::u8), {}}).input;
  ASSERT_EQ(bytes.dtype(), DType::u8);
  expect_near(bytes, {112, 84, 97, 110, 139, 127, 146, 117, 90, 82, 132, 161}, 1);
}

TEST(Resize, TakesTheNearestPixel) {
  const Array image = pattern({1, 5, 6}, 7, 31, DType::f32);
  EXPECT_EQ(after(resize(3, 2, Interpolation::nearest), {image, {}}).input.to_vector<float>(),
            (std::vector<float>{0, 21, 11, 1, 2, 23}));
  // A mask takes the nearest pixel, whatever the image's interpolation is.
  const Sample both = after(resize(3, 2), {image, image.select(0, 0).to(DType::i64)});
  EXPECT_EQ(both.target.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 21, 11, 1, 2, 23}));
}

TEST(Resize, KeepsProportionsByTheShortSide) {
  EXPECT_EQ(after(resize(4), {counting({3, 7, 10}), {}}).input.shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(after(resize(14), {counting({3, 10, 7}), {}}).input.shape(), (Shape{3, 20, 14}));
  EXPECT_EQ(after(resize(7), {counting({1, 7, 7}), {}}).input.to_vector<float>(),
            counting({1, 7, 7}).to_vector<float>());
}

TEST(Resize, SaysWhatItCannotDo) {
  EXPECT_ERROR(resize(0), "resize", "short side");
  EXPECT_ERROR(resize(3, -1), "resize", "3 x -1");
  EXPECT_ERROR(after(resize(3), {counting({4, 5}), {}}), "resize", "(C, H, W)", "(4, 5)");
  EXPECT_ERROR(after(resize(3), {counting({1, 0, 5}), {}}), "resize", "no pixels");
  EXPECT_ERROR(after(resize(3), {counting({1, 4, 5}, DType::i64), {}}), "resize", "u8 or f32", "i64");
}

TEST(Pad, AddsToEachSide) {
  const Array image = counting({1, 1, 2});
  const Sample sample = after(pad(1, 9), {image, image.select(0, 0).to(DType::u8)});
  EXPECT_EQ(sample.input.to_vector<float>(), (std::vector<float>{9, 9, 9, 9, 9, 0, 1, 9, 9, 9, 9, 9}));
  EXPECT_EQ(sample.target.to_vector<float>(),
            (std::vector<float>{255, 255, 255, 255, 255, 0, 1, 255, 255, 255, 255, 255}));
  EXPECT_ERROR(pad(-1), "pad", "-1");
}

}  // namespace
}  // namespace tandem::data
