// Arguments that the raw operations refuse, and the dtypes and empty arrays that the table of operations
// (tests/operations) omits.
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::counting;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

Array integers(const Integers& values, DType dtype = DType::i64) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype);
}

TEST(Ops, Make) {
  EXPECT_EQ(ops::full({2}, 1.5).to_vector<float>(), (Floats{1.5f, 1.5f}));
  EXPECT_EQ(ops::zeros({2}, DType::i32).dtype(), DType::i32);
  EXPECT_EQ(ops::ones({2, 2}, DType::boolean).to_vector<float>(), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(ops::scalar(4).shape(), (Shape{}));
  const Array image = counting({2, 3, 4, 5});
  EXPECT_TRUE(ops::empty_like(image).is_contiguous());
  EXPECT_TRUE(ops::empty_like(image.channels_last()).is_channels_last());
  EXPECT_EQ(ops::empty_like(image, DType::i64).dtype(), DType::i64);
}

TEST(Ops, ElementwiseKeepsTheLayoutOfImages) {
  const Array image = counting({2, 3, 4, 5}).channels_last();
  EXPECT_TRUE(ops::map(functors::Relu{}, image).is_channels_last());
  EXPECT_TRUE(ops::zip(functors::Add{}, image, ops::scalar(1)).is_channels_last());
  EXPECT_TRUE(ops::zip(functors::Add{}, ops::ones({1, 3, 1, 1}), image).is_channels_last());
  EXPECT_TRUE(ops::zip(functors::Add{}, counting({2, 3, 4, 5}), image).is_contiguous());
}

TEST(Ops, ElementwisePromotes) {
  EXPECT_EQ(ops::zip(functors::Add{}, integers({1}), array_of({1.5f})).dtype(), DType::f32);
  EXPECT_EQ(ops::zip(functors::Add{}, integers({1}), array_of({1.5f})).item(), 2.5);
  EXPECT_EQ(ops::zip(functors::Mul{}, integers({300}, DType::i32), integers({2}, DType::u8)).item(), 600);
  EXPECT_EQ(ops::zip(functors::Mul{}, array_of({2}).to(DType::bf16), array_of({3}).to(DType::f16)).dtype(), DType::f32);
}

TEST(Ops, IntegerArithmetic) {
  EXPECT_EQ(ops::map(functors::Exp{}, integers({0})).dtype(), DType::f32);
  // Division is computed in f32, because an integer division by zero would end the process.
  EXPECT_TRUE(std::isinf(ops::zip(functors::Div{}, integers({1}), integers({0})).item()));
  EXPECT_EQ(ops::zip(functors::Sub{}, integers({5, 1}), integers({7, 1})).to_vector<std::int64_t>(), (Integers{-2, 0}));
  const std::int64_t large = (1LL << 60) + 1;
  EXPECT_EQ(ops::zip(functors::Add{}, integers({large}), integers({1})).to_vector<std::int64_t>()[0], large + 1);
  EXPECT_EQ(ops::map(functors::Affine{3, -1}, integers({1, 2})).to_vector<std::int64_t>(), (Integers{2, 5}));
  EXPECT_EQ(ops::zip(functors::Add{}, integers({250}, DType::u8), integers({10}, DType::u8)).item(), 4);
  EXPECT_EQ(ops::compare(functors::Equal{}, integers({1, 2, 3}), integers({3, 2, 3})).to_vector<float>(),
            (Floats{0, 1, 1}));
  EXPECT_EQ(ops::compare(functors::Equal{}, array_of({NAN, 1}), array_of({NAN, 1})).to_vector<float>(), (Floats{0, 1}));
  EXPECT_EQ(ops::compare(functors::Equal{}, ops::ones({2}, DType::boolean), integers({0, 1})).dtype(), DType::boolean);
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::compare(functors::Equal{}, integers({1, 1}), integers({1, 1}))).item(), 2);
}

TEST(Ops, ElementwiseErrors) {
  EXPECT_ERROR(ops::zip(functors::Add{}, counting({2, 3}), counting({2})), "(2, 3)", "(2)", "broadcast");
  EXPECT_ERROR(ops::compare(functors::Equal{}, counting({3}), counting({2})), "(3)", "(2)", "broadcast");
  EXPECT_ERROR(ops::zip(functors::Sub{}, ops::ones({1}, DType::boolean), ops::ones({1}, DType::boolean)), "bool");
  EXPECT_ERROR(ops::map(functors::Affine{2, 0}, ops::ones({1}, DType::boolean)), "bool");
  // Integers would silently lose the fraction.
  EXPECT_ERROR(ops::map(functors::Affine{0.5, 0}, integers({1})), "0.5", "i64");
  Array counter = integers({4});
  EXPECT_ERROR(ops::scale_(counter, 0.5), "0.5", "i64");
  EXPECT_ERROR(ops::add_(counter, integers({1, 2})), "(2)", "(1)");
  EXPECT_ERROR(ops::add_(counter, array_of({0.5f})), "f32", "i64");
  EXPECT_EQ(counter.item(), 4);
}

TEST(Ops, AddInPlace) {
  Array a = counting({2, 3});
  ops::add_(a, array_of({10, 20, 30}));
  EXPECT_EQ(a.to_vector<float>(), (Floats{10, 21, 32, 13, 24, 35}));
  Array column = a.slice(1, 0, 1);
  ops::scale_(column, 2);
  EXPECT_EQ(a.to_vector<float>(), (Floats{20, 21, 32, 26, 24, 35}));
  Array low = array_of({1, 2}).to(DType::bf16);
  ops::add_(low, array_of({1, 1}));
  EXPECT_EQ(low.to_vector<float>(), (Floats{2, 3}));
  Array nothing = Array::empty({0});
  ops::add_(nothing, ops::scalar(1));
}

TEST(Ops, Nothing) {
  const Array none = Array::empty({0, 3});
  EXPECT_EQ(ops::map(functors::Exp{}, none).shape(), (Shape{0, 3}));
  EXPECT_EQ(ops::zip(functors::Add{}, none, ops::ones({3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(ops::reduce(Reduction::sum, none, {0}).to_vector<float>(), (Floats{0, 0, 0}));
  EXPECT_EQ(ops::reduce(Reduction::sum, none, {1}).shape(), (Shape{0}));
  EXPECT_EQ(ops::reduce(Reduction::sum, none).item(), 0);
  EXPECT_TRUE(std::isnan(ops::reduce(Reduction::mean, none).item()));
  EXPECT_ERROR(ops::reduce(Reduction::max, none), "empty", "(0, 3)");
  EXPECT_ERROR(ops::argmax(none, 0), "empty", "(0, 3)");
  EXPECT_EQ(ops::softmax(none, -1, true).shape(), (Shape{0, 3}));
  EXPECT_EQ(ops::matmul(none, ops::ones({3, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(ops::matmul(ops::ones({2, 0}), none).to_vector<float>(), (Floats(6, 0)));
  EXPECT_EQ(ops::matmul(ops::ones({2, 0}), none, array_of({1, 2, 3})).to_vector<float>(), (Floats{1, 2, 3, 1, 2, 3}));
}

TEST(Ops, Reductions) {
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::full({1000}, 200, DType::u8)).to_vector<std::int64_t>(),
            (Integers{200000}));
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::ones({3}, DType::boolean)).dtype(), DType::i64);
  EXPECT_EQ(ops::reduce(Reduction::max, integers({3, 9, 2}, DType::i32)).dtype(), DType::i32);
  EXPECT_EQ(ops::reduce(Reduction::max, integers({3, 9, 2}, DType::i32)).item(), 9);
  EXPECT_EQ(ops::reduce(Reduction::max, array_of({-3, -1})).item(), -1);
  EXPECT_TRUE(std::isnan(ops::reduce(Reduction::max, array_of({1, NAN, 3})).item()));
  // f32 can't represent 2^24 + 1, so a sum in f32 would stop there.
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::ones({(1 << 24) + 2})).item(), (1 << 24) + 2);
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::ones({5000}).to(DType::bf16)).item(),
            4992);  // rounded once, at the end
  EXPECT_EQ(ops::reduce(Reduction::sum, counting({2, 3}).transpose(0, 1), {0}).to_vector<float>(), (Floats{3, 12}));
  EXPECT_EQ(ops::reduce(Reduction::sum, ops::scalar(3)).item(), 3);
  EXPECT_ERROR(ops::reduce(Reduction::mean, integers({1})), "mean", "i64");
  EXPECT_ERROR(ops::reduce(Reduction::sum, counting({2}), {1}), "dimension 1", "1 dimensions");
}

TEST(Ops, ArgmaxTakesTheFirstOfEquals) {
  const Array a = Array::from(Floats{1, 5, 5, 7, 2, 7, 0, 0, 0}, {3, 3});
  EXPECT_EQ(ops::argmax(a, 1).to_vector<std::int64_t>(), (Integers{1, 0, 0}));
  EXPECT_EQ(ops::argmax(a, 0).to_vector<std::int64_t>(), (Integers{1, 0, 1}));
  EXPECT_EQ(ops::argmax(a, -1, true).shape(), (Shape{3, 1}));
  EXPECT_EQ(ops::argmax(a.transpose(0, 1), 0).to_vector<std::int64_t>(), (Integers{1, 0, 0}));
  EXPECT_EQ(ops::argmax(array_of({1, NAN, NAN, 3}), 0).item(), 1);
  EXPECT_EQ(ops::argmax(array_of({-INFINITY, -INFINITY}), 0).item(), 0);
  EXPECT_EQ(ops::argmax(a, 1).dtype(), DType::i64);
}

TEST(Ops, SumToUndoesBroadcasting) {
  EXPECT_EQ(ops::sum_to(counting({2, 3}), {3}).to_vector<float>(), (Floats{3, 5, 7}));
  EXPECT_EQ(ops::sum_to(counting({2, 3}), {2, 1}).to_vector<float>(), (Floats{3, 12}));
  EXPECT_EQ(ops::sum_to(counting({2, 3}), {}).item(), 15);
  EXPECT_EQ(ops::sum_to(counting({1, 3}), {3}).shape(), (Shape{3}));
}

TEST(Ops, LargeArraysGoThroughTheParallelLoops) {
  const std::int64_t n = 300, m = 401;
  const Array a = counting({n, m});
  const Array sum = ops::zip(functors::Add{}, a, a.transpose(0, 1).contiguous().transpose(0, 1));
  const auto found = sum.to_vector<float>();
  for (std::int64_t i = 0; i < n * m; ++i) ASSERT_EQ(found[i], 2.0f * static_cast<float>(i));
  const auto columns = ops::reduce(Reduction::sum, a, {0}).to_vector<double>();
  for (std::int64_t j = 0; j < m; ++j) {
    const double exact = static_cast<double>(j * n + m * n * (n - 1) / 2);
    ASSERT_NEAR(columns[j], exact, 1e-6 * exact);
  }
}

// The sizes have whole squares, incomplete ones, and several blocks.
TEST(Ops, TurnedArraysGoByBlocks) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{5, 37, 83}, Shape{1, 70, 601}, Shape{3, 200, 9}, Shape{40, 3, 70}}) {
      const auto value = [](std::int64_t i) { return static_cast<float>(i % 251); };
      Floats values(static_cast<std::size_t>(shape.product()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i));
      const Array base = Array::from(values, shape).to(dtype);
      for (const Dims& order : {Dims{0, 2, 1}, Dims{2, 1, 0}, Dims{2, 0, 1}, Dims{1, 2, 0}}) {
        const Array turned = base.permute(order);
        const Array added = ops::zip(functors::Add{}, turned, ops::zeros(turned.shape(), dtype));
        Floats expected;
        const Strides& strides = turned.strides();
        for (std::int64_t i = 0; i < turned.dim(0); ++i)
          for (std::int64_t j = 0; j < turned.dim(1); ++j)
            for (std::int64_t k = 0; k < turned.dim(2); ++k)
              expected.push_back(value(i * strides[0] + j * strides[1] + k * strides[2]));
        EXPECT_EQ(turned.contiguous().to_vector<float>(), expected) << dtype << shape << order;
        EXPECT_EQ(added.to_vector<float>(), expected) << dtype << shape << order;
      }
    }
  }
}

// Rows that are shorter or longer than the length from which they are read in place, with and without a rest after the
// whole blocks.
TEST(Ops, RowsMeetRepeatedNumbers) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{7, 96}, Shape{3, 128}, Shape{300, 201}, Shape{2, 20001}}) {
      const std::int64_t n = shape[0], m = shape[1];
      const auto small = [&](const Shape& of) {
        Floats values;
        for (std::int64_t i = 0; i < of.product(); ++i) values.push_back(static_cast<float>(i % 97));
        return Array::from(values, of).to(dtype);
      };
      const Array a = small(shape), column = small({n, 1}), row = small({m});
      const Array to_column = ops::zip(functors::Add{}, a, column), to_row = ops::zip(functors::Add{}, a, row);
      const Array both = ops::zip(functors::Add{}, column, row);
      const Array one = ops::zip(functors::Add{}, a, row.narrow(0, 5, 1));
      const Array some = ops::where(ops::compare(functors::Less{}, column, 2), a, row.narrow(0, 5, 1));
      const Array inner = ops::zip(functors::Add{}, a.narrow(1, 1, m - 3), column);
      std::vector<Floats> expected(7), found;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < m; ++j) {
          const auto x = static_cast<float>((i * m + j) % 97), c = static_cast<float>(i % 97),
                     r = static_cast<float>(j % 97);
          expected[0].push_back(x + c);
          expected[1].push_back(x + r);
          expected[2].push_back(c + r);
          expected[3].push_back(x + 5);
          expected[4].push_back(c < 2 ? x : 5);
          expected[5].push_back(static_cast<float>((i * m + m - 1 - j) % 97));
          if (j > 0 && j < m - 2) expected[6].push_back(x + c);
        }
      }
      for (const Array& result : {to_column, to_row, both, one, some, ops::flip(a, {1}), inner})
        found.push_back(result.to_vector<float>());
      for (std::size_t k = 0; k < found.size(); ++k) EXPECT_EQ(found[k], expected[k]) << k << dtype << shape;
      const Array columns = column.expand(shape).contiguous();
      EXPECT_EQ(ops::zip(functors::Sub{}, to_column, columns).to_vector<float>(), a.to_vector<float>());
    }
  }
}

TEST(Ops, CatGoesRowByRow) {
  const Array a = counting({40, 300, 7, 2}), b = counting({40, 3, 7, 2}), none = counting({40, 0, 7, 2});
  const Floats expected = ops::cat(std::vector{a.to(DType::f64), none, b}, 1).to_vector<float>();
  EXPECT_EQ(expected[300 * 14 + 5], 5);
  EXPECT_EQ(expected[303 * 14 + 5], 300 * 14 + 5);
  EXPECT_EQ(ops::cat(std::vector{a, none, b}, 1).to_vector<float>(), expected);
  const Array images = ops::cat(std::vector{a.channels_last(), b.channels_last()}, 1);
  EXPECT_TRUE(images.is_channels_last());
  EXPECT_EQ(images.to_vector<float>(), expected);
}

TEST(Ops, DotOfLongVectors) {
  const Array x = ops::ones({100000}), y = ops::full({100000}, 0.5);
  EXPECT_EQ(ops::matmul(x, y).item(), 50000);
  EXPECT_EQ(ops::matmul(x.slice(0, 1, Array::to_end, 3), y.slice(0, 0, 99999, 3)).item(), 16666.5);
  EXPECT_EQ(ops::matmul(x.to(DType::f64), y.slice(0, 0, Array::to_end, 1).to(DType::f64)).item(), 50000);
}

TEST(Ops, MatmulErrors) {
  EXPECT_ERROR(ops::matmul(counting({2, 3}), counting({2, 3})), "matmul", "(2, 3)");
  EXPECT_ERROR(ops::matmul(counting({2, 3}), counting({4, 5})), "(2, 3)", "(4, 5)");
  EXPECT_ERROR(ops::matmul(counting({2, 3}), counting({4})), "(2, 3)", "(4)");
  EXPECT_ERROR(ops::matmul(counting({2, 3}), counting({3, 2}, DType::i64)), "f32", "i64");
  EXPECT_ERROR(ops::matmul(counting({2, 3}), counting({3, 2}), counting({3})), "bias", "(3)", "(2)");
}

TEST(Ops, MatmulTakesRepeatedRows) {
  const Array row = array_of({1, 2, 3}).unsqueeze(0).expand({4, 3});
  const Array b = counting({3, 2});
  EXPECT_EQ(ops::matmul(row, b).to_vector<float>(), (Floats{16, 22, 16, 22, 16, 22, 16, 22}));
  EXPECT_EQ(ops::matmul(b.transpose(0, 1), row.transpose(0, 1)).to_vector<float>(),
            (Floats{16, 16, 16, 16, 22, 22, 22, 22}));
  EXPECT_EQ(ops::matmul(row.to(DType::bf16), b.to(DType::bf16)).to_vector<float>(),
            (Floats{16, 22, 16, 22, 16, 22, 16, 22}));
}

const Window three{3, 1, 1, 1};

TEST(Ops, Conv2dErrors) {
  const Array x = counting({2, 3, 5, 5}), w = counting({4, 3, 3, 3});
  EXPECT_ERROR(ops::conv2d(counting({3, 5, 5}), w, {}, three), "conv2d", "(N, C, H, W)", "(3, 5, 5)");
  EXPECT_ERROR(ops::conv2d(x, counting({4, 2, 3, 3}), {}, three), "conv2d", "3 channels", "takes 2");
  EXPECT_ERROR(ops::conv2d(x, counting({4, 27}), {}, three), "weight", "(4, 27)");
  EXPECT_ERROR(ops::conv2d(x, w, counting({3}), three), "bias", "(4)", "(3)");
  EXPECT_ERROR(ops::conv2d(x.to(DType::u8), w, {}, three), "floating", "u8");
  EXPECT_ERROR(ops::conv2d(x, w.to(DType::i64), {}, three), "weight", "i64");
  EXPECT_ERROR(ops::conv2d(x, w, {}, {5, 1, 2, 1}), "kernel", "5x5", "(4, 3, 3, 3)");
  EXPECT_ERROR(ops::conv2d(x, w, {}, {3, 1, 0, 3}), "smaller than the kernel", "(2, 3, 5, 5)");
  EXPECT_ERROR(ops::conv2d(x, w, {}, {3, 0, 0, 1}), "stride 0x0");
  EXPECT_ERROR(ops::conv2d(x, w, {}, {3, 1, -1, 1}), "padding -1x-1");
  EXPECT_ERROR(ops::conv2d(counting({2, 0, 5, 5}), counting({4, 0, 3, 3}), {}, three), "channels", "(2, 0, 5, 5)");
}

TEST(Ops, SpatialOperationsTakeAnEmptyBatch) {
  const Array none = Array::empty({0, 3, 4, 4}), w = ops::ones({5, 3, 3, 3});
  const Array y = ops::conv2d(none, w, ops::ones({5}), three);
  EXPECT_EQ(y.shape(), (Shape{0, 5, 4, 4}));
  EXPECT_EQ(ops::conv2d_grad_input(y, w, three, none.shape()).shape(), none.shape());
  const auto grad = ops::conv2d_grad_weight(none, y, three, 5, true, DType::f32);
  EXPECT_EQ(grad.weight.to_vector<float>(), Floats(5 * 27, 0));
  EXPECT_EQ(grad.bias.to_vector<float>(), Floats(5, 0));
  const auto pooled = ops::max_pool2d(none, Window{2, 2, 0, 1});
  EXPECT_EQ(pooled.y.shape(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(ops::max_pool2d_grad(pooled.y, pooled.index, ops::pooling_of(none, {2, 2, 0, 1}, false, "")).shape(),
            none.shape());
  const BatchNormAffine affine{ops::zeros({3}), ops::ones({3}), ops::ones({3}), ops::zeros({3})};
  for (const bool pool : {false, true}) {
    const auto out = ops::batch_norm_apply(none, affine, {.relu = true, .max_pool_2x2 = pool});
    EXPECT_EQ(out.y.shape(), (pool ? Shape{0, 3, 2, 2} : none.shape()));
  }
}

TEST(Ops, MaxPoolErrors) {
  EXPECT_ERROR(ops::max_pool2d(counting({3, 4}), Window{2, 2, 0, 1}), "max_pool2d", "(3, 4)");
  EXPECT_ERROR(ops::max_pool2d(counting({1, 1, 4, 4}), Window{2, 2, 2, 1}), "padding 2x2", "2x2");
  EXPECT_ERROR(ops::max_pool2d(counting({1, 1, 1, 4}), Window{2, 2, 0, 1}), "smaller than the kernel", "(1, 1, 1, 4)");
  EXPECT_ERROR(ops::max_pool2d(counting({1, 1, 4, 4}, DType::i64), Window{2, 2, 0, 1}), "floating", "i64");
}

TEST(Ops, MaxPoolKeepsNanAndTakesTheFirstOfEquals) {
  const Array x = Array::from(Floats{1, NAN, 2, 2, 3, 4, 2, 2}, {1, 1, 2, 4});
  const auto pooled = ops::max_pool2d(x, Window{2, 2, 0, 1});
  EXPECT_TRUE(std::isnan(pooled.y.to_vector<float>()[0]));
  EXPECT_EQ(pooled.y.to_vector<float>()[1], 2);
  EXPECT_EQ(pooled.index.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0}));
  const auto infinite = ops::max_pool2d(ops::full({1, 1, 2, 2}, -INFINITY), Window{3, 2, 1, 1});
  EXPECT_EQ(infinite.y.to_vector<float>(), Floats(1, -INFINITY));
}

TEST(Ops, MaxPoolOfNothingButPaddingHasNoGradient) {
  const Window around{2, 1, 1, 3};
  const auto pooled = ops::max_pool2d(ops::ones({1, 1, 2, 2}), around);
  EXPECT_EQ(pooled.y.to_vector<float>(), Floats(1, -INFINITY));
  const Array grad = ops::max_pool2d_grad(ops::ones(pooled.y.shape()), pooled.index,
                                          ops::pooling_of(ops::ones({1, 1, 2, 2}), around, false, ""));
  EXPECT_EQ(grad.to_vector<float>(), Floats(4, 0));
}

TEST(Ops, BatchNormErrors) {
  const Array x = counting({2, 3, 2, 2});
  const BatchNormAffine good{ops::zeros({3}), ops::ones({3}), ops::ones({3}), ops::zeros({3})};
  BatchNormAffine bad = good;
  bad.weight = ops::ones({4});
  EXPECT_ERROR(ops::batch_norm_apply(x, bad, {}), "batch_norm", "(2, 3, 2, 2)", "(3)", "(4)");
  bad.weight = ops::ones({3}, DType::f64);
  EXPECT_ERROR(ops::batch_norm_apply(x, bad, {}), "f32", "f64");
  EXPECT_ERROR(ops::batch_norm_stats(counting({2, 3})), "(N, C, H, W)", "(2, 3)");
  EXPECT_ERROR(ops::batch_norm_stats(counting({2, 0, 3, 3})), "channels", "(2, 0, 3, 3)");
  EXPECT_ERROR(ops::batch_norm_apply(counting({2, 3, 1, 2}), good, {.max_pool_2x2 = true}), "(2, 3, 1, 2)", "2 x 2");
}

TEST(Ops, BatchNormStatisticsAreStable) {
  // Values near 10^4 with small differences: a variance computed from the sum of squares would lose all digits.
  Floats values(2 * 3 * 50 * 50);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 10000.0f + static_cast<float>(i % 8) * 0.125f;
  const Array x = Array::from(values, {2, 3, 50, 50});
  const auto stats = ops::batch_norm_stats(x);
  EXPECT_EQ(stats.count.item(), 5000);
  for (int c = 0; c < 3; ++c) {
    double mean = 0, m2 = 0;
    const auto channel = x.select(1, c).to_vector<double>();
    for (const double v : channel) mean += v / 5000;
    for (const double v : channel) m2 += (v - mean) * (v - mean);
    EXPECT_NEAR(stats.mean.select(0, c).item(), mean, 1e-3);
    EXPECT_NEAR(stats.m2.select(0, c).item() / m2, 1, 1e-4);
  }
}

TEST(Ops, CrossEntropyErrors) {
  const Array logits = counting({2, 3});
  EXPECT_ERROR(ops::cross_entropy(logits, integers({0, 3})), "target 3", "row 1", "0 to 2");
  EXPECT_ERROR(ops::cross_entropy(logits, integers({-1, 0})), "target -1", "row 0");
  EXPECT_ERROR(ops::cross_entropy(logits, integers({0})), "(2)", "(1)");
  EXPECT_ERROR(ops::cross_entropy(logits, integers({0, 1}, DType::i32)), "i64", "i32");
  EXPECT_ERROR(ops::cross_entropy(counting({2}), integers({0, 1})), "target ()", "(2)");
  EXPECT_ERROR(ops::cross_entropy(ops::scalar(1), integers({0, 1})), "(N, classes)", "()");
  EXPECT_ERROR(ops::cross_entropy(counting({2, 3}, DType::i64), integers({0, 1})), "floating", "i64");
  EXPECT_ERROR(ops::softmax(counting({2}, DType::i64), -1, true), "log_softmax", "i64");
}

TEST(Ops, CrossEntropyOfWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(ops::cross_entropy(Array::from(Floats{1, NAN}, {1, 2}), integers({0})).loss.item()));
  EXPECT_EQ(ops::cross_entropy(Array::from(Floats{1, -INFINITY}, {1, 2}), integers({0})).loss.item(), 0);
  EXPECT_EQ(ops::cross_entropy(Array::from(Floats{1, -INFINITY}, {1, 2}), integers({1})).loss.item(), INFINITY);
  EXPECT_TRUE(std::isnan(ops::cross_entropy(Array::empty({0, 2}), integers({})).loss.item()));
}

TEST(Ops, ExpAtTheEndsOfItsRange) {
  const Floats x{-INFINITY, -1e30f, -104.1f, -103, -88, -87, 0, 88, 89, 1e30f, INFINITY, NAN};
  Floats all;
  for (int i = 0; i < 5; ++i) all.insert(all.end(), x.begin(), x.end());  // whole vectors, and a part of one
  const Floats found = ops::map(functors::Exp{}, array_of(all)).to_vector<float>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float expected = std::exp(all[i]);
    if (std::isnan(expected)) EXPECT_TRUE(std::isnan(found[i]));
    else if (std::isinf(expected)) EXPECT_EQ(found[i], expected);
    else EXPECT_NEAR(found[i], expected, 2e-6f * expected + 2e-45f) << all[i];
  }
}

// The unused lanes after the last class once held numbers whose exponentials took a hundred times as long as others.
TEST(Ops, SoftmaxOfAnyNumberOfClassesIsFast) {
  const Array odd = ops::rand({4096, 15}), even = ops::rand({4096, 16});
  const auto seconds_of = [](const Array& x) {
    const auto start = std::chrono::steady_clock::now();
    ops::softmax(x, 1);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // On a busy machine, a call may wait for a core.
  double of_odd = seconds_of(odd), of_even = seconds_of(even);
  for (int call = 0; call < 8 || (call < 200 && of_odd >= 2.5 * of_even); ++call) {
    of_odd = std::min(of_odd, seconds_of(odd));
    of_even = std::min(of_even, seconds_of(even));
  }
  EXPECT_LT(of_odd, 2.5 * of_even);
}

}  // namespace
}  // namespace tandem
