// Arrays: creation, copies, filling and reading.
#include <tandem/core/array/array.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "support/arrays.h"
#include "support/dtypes.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::all_dtypes;
using testing::array_of;
using testing::counting;
using testing::strided;
using Floats = std::vector<float>;

TEST(Array, FromCopiesAndChecksTheCount) {
  Floats values{1, 2, 3, 4, 5, 6};
  const Array a = Array::from(values, {2, 3});
  values[0] = 99;
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a.shape(), (Shape{2, 3}));
  EXPECT_EQ(a.dtype(), DType::f32);
  EXPECT_EQ(a.bytes(), 24u);
  EXPECT_EQ(a.dim(-1), 3);
  EXPECT_ERROR(Array::from(values, {2, 2}), "6 values", "(2, 2)");
  EXPECT_ERROR(Array::empty({2, -1}), "negative", "(2, -1)");
  EXPECT_ERROR(a.dim(2), "dimension 2", "2 dimensions");
  EXPECT_ERROR(a.data<double>(), "f32", "f64");
  EXPECT_FALSE(Array().defined());
}

Array lives_until_exit;

// The back-ends were made after this Array, but must outlive it. The address sanitizer sees it if they don't.
TEST(Array, MayHaveStaticStorage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        lives_until_exit = Array::from({1, 2, 3});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Array, MemoryIsAligned) {
  for (const std::int64_t n : {0, 1, 17, 1000, 100000, 3000000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Array::empty({n}).raw()) % 64, 0u);
}

// If the product wrapped around, a small block would be used as a large array.
TEST(Array, SizesBeyondAnyMemoryAreRefused) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_ERROR(Array::empty({large, large}), "64 bits");
  EXPECT_ERROR(Array::empty({2 * large, large >> 20}, DType::f64), "(2199023255552, 1048576)", "f64");
  EXPECT_ERROR(Array::empty({1}).reshape({large, large, -1}), "64 bits");
  EXPECT_EQ(Array::empty({0, large, large}).reshape({large, 0, large}).numel(), 0);
}

TEST(Array, DevicesThatThisBuildLacksAreNamed) {
  const Device gpu{Device::Kind::cuda, 1};
  EXPECT_ERROR(Array::empty({1}, DType::f32, gpu), "cuda:1");
  EXPECT_ERROR(counting({2}).to(gpu), "cuda:1");
}

TEST(Array, CopiesBetweenAllDtypes) {
  const Floats values{0, 1, 2, 100, 255, 0, 7, 1};
  for (const DType from : all_dtypes) {
    for (const DType to : all_dtypes) {
      const Array source = Array::from(values, {2, 4}).to(from);
      Floats expected;
      for (const float v : values) expected.push_back(from == DType::boolean || to == DType::boolean ? v != 0 : v);
      EXPECT_EQ(source.to(to).dtype(), to);
      EXPECT_EQ(source.to(to).to_vector<float>(), expected) << from << " to " << to;
      EXPECT_EQ(strided(source).to(to).to_vector<float>(), expected) << from << " to " << to;
      Array target = strided(Array::empty({4, 2}, to)).transpose(0, 1);
      target.copy_from(source);
      EXPECT_EQ(target.to_vector<float>(), expected) << from << " to " << to;
    }
  }
}

TEST(Array, CopiesRoundAndTruncate) {
  const Array a = array_of({-1.9f, 1.9f, 3.0f});
  EXPECT_EQ(a.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-1, 1, 3}));
  EXPECT_EQ(a.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 1, 3}));
  EXPECT_EQ(Array::from(std::vector<std::int64_t>{-1, 256}, {2}).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{255, 0}));
  EXPECT_EQ(array_of({0.5f, -0.0f, NAN}).to(DType::boolean).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 0, 1}));
  const std::int64_t large = (1LL << 53) + 1;
  EXPECT_EQ(Array::from(std::vector<std::int64_t>{large}, {1}).clone().to_vector<std::int64_t>()[0], large);
  EXPECT_EQ(array_of({1e10f, -1e-10f}).to(DType::f16).to_vector<float>(), (Floats{INFINITY, 0}));
  EXPECT_EQ(array_of({1.00390625f, 1.01171875f}).to(DType::bf16).to_vector<float>(), (Floats{1.0f, 1.015625f}));
}

TEST(Array, FromBlobReadsAndWritesTheMemoryOfAnother) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    const Array a = Array::from_blob(values.data(), {2, 3}, DType::f32, [&] { ++released; });
    const Array row = a.select(0, 1);
    EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{4, 5, 6}));
    values[4] = 50;
    row.slice(0, 2).fill(60);
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 50, 60}));
    EXPECT_EQ(a.clone().raw() == a.raw(), false);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 50, 60}));

  // Without a function that releases it, the memory is left alone.
  { const Array a = Array::from_blob(values.data(), {6}, DType::f32); }
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(Array::from_blob(nullptr, {0, 3}, DType::f32).numel(), 0);
  EXPECT_ERROR(Array::from_blob(nullptr, {1}, DType::f32), "from_blob", "multiple of 4");
  EXPECT_ERROR(Array::from_blob(reinterpret_cast<char*>(values.data()) + 2, {1}, DType::f32), "from_blob: f32",
               "multiple of 4");
  EXPECT_ERROR(Array::from_blob(values.data(), {-1}, DType::f32), "from_blob: shape (-1) has a negative size");
}

TEST(Array, CopyFromBroadcasts) {
  Array target = ops::zeros({2, 3});
  target.copy_from(array_of({1, 2, 3}));
  EXPECT_EQ(target.to_vector<float>(), (Floats{1, 2, 3, 1, 2, 3}));
  target.select(1, 1).fill(9);
  EXPECT_EQ(target.to_vector<float>(), (Floats{1, 9, 3, 1, 9, 3}));
  target.copy_from(ops::scalar(4));
  EXPECT_EQ(target.to_vector<float>(), (Floats(6, 4)));
  EXPECT_ERROR(target.copy_from(counting({2})), "(2)", "(2, 3)");
  EXPECT_ERROR(target.copy_from(counting({1, 2, 3})), "(1, 2, 3)", "(2, 3)");
  Array nothing = Array::empty({0, 3});
  nothing.copy_from(counting({1, 3}));
  EXPECT_ERROR(nothing.copy_from(counting({2, 3})), "(2, 3)", "(0, 3)");
}

// The result is as if the whole source had been read first, whatever the order of the loop.
TEST(Array, CopiesFromViewsThatOverlap) {
  for (const std::int64_t n : {2, 9, 100}) {
    for (const std::int64_t shift : {1, 3}) {
      Array up = counting({n + shift}), down = counting({n + shift});
      const Array from_up = up.slice(0, 0, n).clone(), from_down = down.slice(0, shift, n + shift).clone();
      Array end = up.slice(0, shift, n + shift), begin = down.slice(0, 0, n);
      end.copy_from(up.slice(0, 0, n));
      begin.copy_from(down.slice(0, shift, n + shift));
      EXPECT_EQ(end.to_vector<float>(), from_up.to_vector<float>()) << n << ' ' << shift;
      EXPECT_EQ(begin.to_vector<float>(), from_down.to_vector<float>()) << n << ' ' << shift;
    }
  }
  Array square = counting({5, 5});
  const Array turned = square.transpose(0, 1).clone();
  square.copy_from(square.transpose(0, 1));
  EXPECT_EQ(square.to_vector<float>(), turned.to_vector<float>());
  Array row = counting({4});
  row.copy_from(row.slice(0, 2, 3));
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
}

TEST(Array, FillSetsEveryDtype) {
  for (const DType dtype : all_dtypes) {
    Array a = Array::empty({3}, dtype);
    a.fill(1);
    EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{1, 1, 1})) << dtype;
  }
  Array view = ops::zeros({2, 4}).slice(1, 1, 3);
  view.fill(0.1);
  EXPECT_EQ(view.to_vector<float>(), (Floats(4, 0.1f)));
}

TEST(Array, FromNumbersThatAreWrittenThere) {
  EXPECT_EQ(Array::from({1, 2, 3}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(Array::from({1, 2, 3}).dtype(), DType::i64);
  EXPECT_EQ(Array::from({std::int64_t{1} << 60}).item<std::int64_t>(), std::int64_t{1} << 60);
  EXPECT_EQ(Array::from({1.0, 2.5}).to_vector<float>(), (Floats{1, 2.5}));
  EXPECT_EQ(Array::from({1.0, 2.5}).dtype(), DType::f32);
  EXPECT_EQ(Array::from(std::vector<double>{4}).shape(), (Shape{1}));
}

// Above 2^53, a double represents only some of the integers.
TEST(Array, LargeIntegersAreExactOrAnError) {
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  const Array ids = Array::from(std::vector<std::int64_t>{large, large - 1}, {2});
  EXPECT_EQ(ids.select(0, 0).item<std::int64_t>(), large);
  EXPECT_ERROR(ids.select(0, 0).item(), "9007199254740993", "beyond 2^53");
  EXPECT_EQ(ids.select(0, 1).item(), 0x1p53);
  EXPECT_ERROR(static_cast<void>(ids == large), "9007199254740993", "beyond 2^53");
  EXPECT_EQ((ids == Array::from(std::vector<std::int64_t>{large}, {1})).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ((ids == large - 1).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1}));
  EXPECT_ERROR(full({2}, large, DType::i64), "beyond 2^53");
  EXPECT_ERROR(ops::masked_fill(ids, ids == large - 1, large), "beyond 2^53");
  EXPECT_ERROR(Array(ids.clone()).fill(large), "beyond 2^53");
  EXPECT_ERROR(full({2}, std::numeric_limits<std::uint64_t>::max(), DType::i64), "18446744073709551615");
  EXPECT_EQ(full({1}, std::numeric_limits<std::int64_t>::min(), DType::i64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_ERROR(ids.item<std::int64_t>(), "one element", "(2)");
}

TEST(Array, ItemAndToString) {
  EXPECT_EQ(ops::scalar(2.5).item(), 2.5);
  EXPECT_EQ(ops::full({1, 1}, 7, DType::i32).item(), 7);
  EXPECT_EQ(ops::ones({}, DType::boolean).item(), 1);
  EXPECT_EQ(counting({3}).select(0, 2).item(), 2);
  EXPECT_ERROR(counting({2}).item(), "one element", "(2)");
  EXPECT_ERROR(Array::empty({0}).item(), "one element", "(0)");
  EXPECT_ERROR(Array().item(), "item", "this Array is undefined");
  EXPECT_ERROR(Array().raw(), "this Array is undefined");
  EXPECT_EQ(array_of({1, 2.5}).to_string(), "Array(2) f32 cpu [1.0000, 2.5000]");
  EXPECT_EQ(counting({2, 2}, DType::i64).transpose(0, 1).to_string(), "Array(2, 2) i64 cpu\n[[0, 2],\n [1, 3]]");
  EXPECT_EQ(ops::scalar(3).to_string(), "Array() f32 cpu 3.");
  EXPECT_EQ(Array::empty({0, 2}).to_string(), "Array(0, 2) f32 cpu []");
  EXPECT_EQ(Array().to_string(), "Array(undefined)");
}

}  // namespace
}  // namespace tandem
