// Tests that rows of a data set in the GPU's memory are gathered.
#include <tandem/core/device/device.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "conformance/compare.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_same;
using testing::gpu;
using testing::numbers;

Array indices(const std::vector<std::int64_t>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}
const Array wanted = indices({6, 0, 0, 3, 5});

Array bytes(const Shape& shape) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(37 * i + i / 256);
  return Array::from(values, shape);
}

TEST(Gather, TakesRows) {
  for (const Array& rows : {numbers({7, 2, 3}), numbers({7, 2, 3}).to(gpu)}) {
    const Array out = ops::gather_rows(rows, wanted.to(rows.device()));
    EXPECT_EQ(out.shape(), (Shape{5, 2, 3}));
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto row = static_cast<std::int64_t>(wanted.select(0, i).item());
      EXPECT_EQ(out.select(0, i).to_vector<float>(), rows.select(0, row).to_vector<float>());
    }
  }
}

TEST(Gather, EveryDtypeAndSizeOfARow) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::boolean}) {
    for (const Shape& shape : {Shape{7}, {7, 1}, {7, 2}, {7, 3}, {7, 4}, {7, 8}, {7, 16}, {7, 5, 5}, {7, 1, 28, 28}}) {
      SCOPED_TRACE(::testing::Message() << dtype << ' ' << shape);
      const Array rows = numbers(shape, 1, dtype), there = rows.to(gpu);
      expect_same(ops::gather_rows(rows, wanted), ops::gather_rows(there, wanted.to(gpu)), 0);
      // rows that start at an odd address
      const Array index = indices({5, 1, 1});
      expect_same(ops::gather_rows(rows.slice(0, 1, 7), index), ops::gather_rows(there.slice(0, 1, 7), index.to(gpu)),
                  0);
    }
  }
}

TEST(Gather, RowsAndIndicesInOtherLayouts) {
  const Array rows = numbers({3, 7, 4}).transpose(0, 1);
  const Array images = numbers({7, 3, 4, 5}).channels_last();
  const Array index = Array::from(std::vector<std::int64_t>{6, 99, 2, 99, 0, 99}, {3, 2}).select(1, 0);
  for (const Array& view : {rows, images}) {
    const Array dense = ops::gather_rows(view.contiguous(), index);
    expect_same(dense, ops::gather_rows(view, index), 0);
    const Array there = Array::from(std::vector<std::int64_t>{6, 99, 2, 99, 0, 99}, {3, 2}).to(gpu).select(1, 0);
    expect_same(dense, ops::gather_rows(view.to(gpu), there), 0);
  }
  expect_same(ops::gather_rows(rows, index),
              ops::gather_rows(numbers({3, 7, 4}).to(gpu).transpose(0, 1), index.to(gpu)), 0);
  EXPECT_TRUE(ops::gather_rows(images, index).is_channels_last());
  EXPECT_TRUE(ops::gather_rows(images.to(gpu), index.to(gpu)).is_channels_last());
}

TEST(Gather, Normalizes) {
  for (const Shape& shape : {Shape{7, 1, 28, 28}, {7, 5, 5}, {7}, {7, 3, 2, 2}}) {
    for (const auto& [mean, std] : {std::pair{0.0f, 1.0f}, {0.1307f, 0.3081f}}) {
      SCOPED_TRACE(::testing::Message() << shape << " mean " << mean);
      const Array rows = bytes(shape);
      const Array here = ops::gather_normalized(rows, wanted, mean, std);
      const auto found = here.to_vector<float>();
      const auto taken = ops::gather_rows(rows, wanted).to_vector<std::uint8_t>();
      for (std::size_t i = 0; i < taken.size(); ++i)
        ASSERT_EQ(found[i], (static_cast<float>(taken[i]) / 255.0f - mean) / std) << "element " << i;
      expect_same(here, ops::gather_normalized(rows.to(gpu), wanted.to(gpu), mean, std), 0);
      expect_same(ops::gather_normalized(rows.slice(0, 1, 7), indices({5}), mean, std),
                  ops::gather_normalized(rows.to(gpu).slice(0, 1, 7), indices({5}).to(gpu), mean, std), 0);
    }
  }
}

TEST(Gather, NothingFromNothing) {
  for (const Device device : {Device{}, gpu}) {
    const Array none = indices({}).to(device);
    EXPECT_EQ(ops::gather_rows(numbers({7, 2}).to(device), none).shape(), (Shape{0, 2}));
    EXPECT_EQ(ops::gather_rows(numbers({0, 2}).to(device), none).shape(), (Shape{0, 2}));
    EXPECT_EQ(ops::gather_normalized(bytes({7, 2}).to(device), none).shape(), (Shape{0, 2}));
  }
}

TEST(Gather, AnIndexThatIsNoRow) {
  for (const std::int64_t wrong : {-1, 7, 1 << 30}) {
    const std::string words =
        "gather_rows: index " + std::to_string(wrong) + " at position 2 is not a row: expected 0 to 6";
    const Array rows = bytes({7, 40}), index = indices({6, 0, wrong, wrong + 100, 1});
    EXPECT_ERROR(ops::gather_rows(rows, index), words);
    EXPECT_ERROR(ops::gather_normalized(rows, index), words);
    const Array there = rows.to(gpu), index_there = index.to(gpu);
    const Array out = ops::gather_rows(there, index_there);
    EXPECT_ERROR(out.to(Device{}), words);
    EXPECT_EQ(out.select(0, 1).to_vector<std::uint8_t>(), rows.select(0, 0).to_vector<std::uint8_t>());
    ops::gather_normalized(there, index_there);
    EXPECT_ERROR(synchronize(gpu), words);
    synchronize(gpu);
  }
}

// With --deterministic, a sum follows the order of the indices, as on the CPU, so the results are bitwise identical.
TEST(Scatter, IsRepeatableWhereThatIsAskedFor) {
  std::vector<std::int64_t> places;
  for (int i = 0; i < 3 * 40 * 5; ++i) places.push_back(i * 7 % 4);
  const Array index = Array::from(places, {3, 40, 5});
  set_deterministic(true);
  for (const int dim : {0, 1, 2}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
      SCOPED_TRACE(::testing::Message() << dtype << " along " << dim);
      Array here = numbers({4, 40, 5}, 1, dtype);
      if (dim == 1) here = numbers({3, 4, 5}, 1, dtype);
      if (dim == 2) here = numbers({3, 40, 4}, 1, dtype);
      Array there = here.to(gpu);
      const Array source = numbers({3, 40, 5}, 2, dtype);
      ops::scatter_add_(here, dim, index, source);
      ops::scatter_add_(there, dim, index.to(gpu), source.to(gpu));
      expect_same(here, there, 0);
      ops::scatter_(here, dim, index, source, "scatter");  // the last one remains
      ops::scatter_(there, dim, index.to(gpu), source.to(gpu), "scatter");
      expect_same(here, there, 0);
    }
  }
  set_deterministic(false);
}

TEST(Gather, RefusesWhatDoesNotFit) {
  const Array rows = bytes({7, 2});
  EXPECT_ERROR(ops::gather_rows(ops::scalar(1), wanted), "got a scalar");
  EXPECT_ERROR(ops::gather_rows(rows, wanted.to(DType::i32)), "must be (N) i64", "i32");
  EXPECT_ERROR(ops::gather_rows(rows, wanted.reshape({5, 1})), "must be (N) i64", "(5, 1)");
  EXPECT_ERROR(ops::gather_rows(rows.to(gpu), wanted), "rows are on cuda:0, index is on cpu");
  EXPECT_ERROR(ops::gather_normalized(numbers({7, 2}), wanted), "rows of u8", "f32");
  EXPECT_ERROR(ops::gather_normalized(rows, wanted, 0, 0), "std must be above 0, got 0");
}

}  // namespace
}  // namespace tandem
