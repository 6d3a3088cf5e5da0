// Views of an array, and reshaping, which keeps the memory if possible.
#include <tandem/core/array/array.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <limits>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using Floats = std::vector<float>;

TEST(Array, Views) {
  const Array a = counting({2, 3, 4});
  const auto expect_view = [&](const Array& view, const Shape& shape, const Floats& values) {
    EXPECT_EQ(view.storage(), a.storage());
    EXPECT_EQ(view.shape(), shape);
    EXPECT_EQ(view.to_vector<float>(), values);
  };
  expect_view(a.select(0, 1).select(0, 2), {4}, {20, 21, 22, 23});
  expect_view(a.select(-1, 3), {2, 3}, {3, 7, 11, 15, 19, 23});
  expect_view(a.slice(1, 1, 2), {2, 1, 4}, {4, 5, 6, 7, 16, 17, 18, 19});
  expect_view(a.slice(2, 1, 3).select(0, 0), {3, 2}, {1, 2, 5, 6, 9, 10});
  expect_view(a.slice(0, 1, 1), {0, 3, 4}, {});
  expect_view(a.select(0, 0).transpose(0, 1), {4, 3}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  expect_view(a.permute({2, 0, 1}).slice(0, 0, 1), {1, 2, 3}, {0, 4, 8, 12, 16, 20});
  expect_view(a.permute({-1, -3, -2}).slice(0, 0, 1), {1, 2, 3}, {0, 4, 8, 12, 16, 20});
  expect_view(a.slice(0, 0, 1).slice(1, 0, 1).expand({2, 2, 4}), {2, 2, 4},
              {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  expect_view(a.slice(1, 2, 3).squeeze(1).select(0, 1), {4}, {20, 21, 22, 23});
  EXPECT_EQ(a.unsqueeze(0).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(a.unsqueeze(-1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_TRUE(a.unsqueeze(1).is_contiguous());
  EXPECT_EQ(a.flatten(1).shape(), (Shape{2, 12}));
  EXPECT_EQ(a.flatten().shape(), (Shape{24}));
  EXPECT_EQ(ops::scalar(3).flatten().shape(), (Shape{1}));
  EXPECT_EQ(ops::scalar(3).expand({2}).to_vector<float>(), (Floats{3, 3}));
}

TEST(Array, SlicesAsPythonDoes) {
  const Array a = counting({5});
  constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  const auto is = [&](const Array& view, const Floats& values) { EXPECT_EQ(view.to_vector<float>(), values); };
  is(a.slice(0, 1), {1, 2, 3, 4});
  is(a.slice(0, -2), {3, 4});
  is(a.slice(0, -99, 2), {0, 1});
  is(a.slice(0, 3, 99), {3, 4});
  is(a.slice(0, 3, 1), {});
  is(a.slice(0, 9), {});
  is(a.slice(0, least, -1), {0, 1, 2, 3});
  is(a.slice(0, 0, most, 2), {0, 2, 4});
  is(a.slice(0, 1, -1, 3), {1});
  is(a.slice(0, 1, most, most), {1});
  is(counting({0}).slice(0, 0, 3), {});
}

TEST(Array, ViewsOfOneElementAndNone) {
  const Array scalar = ops::scalar(3);
  EXPECT_EQ(scalar.squeeze(0).shape(), Shape{});
  EXPECT_EQ(scalar.transpose(0, -1).shape(), Shape{});
  EXPECT_EQ(scalar.squeeze().shape(), Shape{});
  const Array a = counting({2, 0, 1});
  EXPECT_EQ(a.squeeze().shape(), (Shape{2, 0}));
  EXPECT_EQ(a.squeeze(0).shape(), (Shape{2, 0, 1}));
  EXPECT_EQ(a.flatten(1).shape(), (Shape{2, 0}));
  EXPECT_EQ(a.unflatten(1, {0, 5}).shape(), (Shape{2, 0, 5, 1}));
  EXPECT_EQ(a.diagonal(7, 0, 1).shape(), (Shape{1, 0}));
  EXPECT_EQ(a.view({0, 7}).shape(), (Shape{0, 7}));
}

TEST(Array, ViewsSayWhatDoesNotFit) {
  const Array a = counting({2, 3, 4});
  EXPECT_ERROR(a.permute({0, 1}), "permute", "(0, 1)", "3");
  EXPECT_ERROR(a.permute({0, 1, 1}), "permute", "(0, 1, 1)", "twice");
  EXPECT_ERROR(a.permute({0, 1, 3}), "3");
  EXPECT_ERROR(a.slice(1, 0, 2, 0), "slice", "step", "0");
  EXPECT_ERROR(a.narrow(1, 2, 2), "narrow", "2 elements from 2", "(2, 3, 4)");
  EXPECT_ERROR(a.narrow(1, -4, 1), "narrow", "-4", "(2, 3, 4)");
  EXPECT_ERROR(a.narrow(1, 0, -1), "narrow", "-1");
  EXPECT_ERROR(a.select(0, -3), "select", "-3", "(2, 3, 4)");
  EXPECT_ERROR(a.select(0, 2), "2", "(2, 3, 4)");
  EXPECT_ERROR(a.expand({2, 3, 5}), "expand", "(2, 3, 4)", "(2, 3, 5)");
  EXPECT_ERROR(a.expand({3, 4}), "expand", "(2, 3, 4)", "(3, 4)");
  EXPECT_ERROR(a.expand({-1, 2, 3, 4}), "expand", "new dimension");
  EXPECT_ERROR(a.squeeze({0, -3}), "squeeze", "twice");
  EXPECT_ERROR(a.transpose(0, 1).view({6, 4}), "view", "(3, 2, 4)", "(6, 4)", "reshape");
  EXPECT_ERROR(a.unflatten(2, {3, -1}), "unflatten", "(3, -1)", "(2, 3, 4)");
  EXPECT_ERROR(a.unflatten(2, {}), "unflatten");
  EXPECT_ERROR(a.flatten(2, 1), "flatten", "(2, 3, 4)");
  EXPECT_ERROR(a.diagonal(0, 1, -2), "diagonal", "same");
  EXPECT_ERROR(a.transpose(0, 3), "3");
  EXPECT_ERROR(counting({1, 1, 1, 1, 1, 1}).unsqueeze(0), "at most 6");
}

TEST(Array, ReshapeSaysWhatDoesNotFit) {
  const Array a = counting({2, 3});
  EXPECT_ERROR(a.reshape({4}), "reshape", "(2, 3)", "6", "(4)");
  EXPECT_ERROR(a.reshape({4, -1}), "(2, 3)", "(4, -1)");
  EXPECT_ERROR(a.reshape({-1, -1}), "only one", "(-1, -1)");
  EXPECT_ERROR(a.reshape({-2, -3}), "(-2, -3)");
  EXPECT_ERROR(Array::empty({0, 3}).reshape({0, -1}), "(0, -1)");
  EXPECT_EQ(Array::empty({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(Array::empty({0, 3}).reshape({5, 0, 2}).shape(), (Shape{5, 0, 2}));
}

TEST(Array, ReshapeViewsWhereItCan) {
  const Array a = counting({2, 3, 4});
  EXPECT_EQ(a.reshape({6, -1}).storage(), a.storage());
  // Rows with a gap between them can be split, but not joined.
  const Array rows = counting({4, 8}).slice(1, 0, 6);
  EXPECT_EQ(rows.reshape({2, 2, 3, 2}).storage(), rows.storage());
  EXPECT_EQ(rows.reshape({2, 2, 3, 2}).strides(), (Strides{16, 8, 2, 1}));
  EXPECT_NE(rows.reshape({24}).storage(), rows.storage());
  EXPECT_NE(rows.reshape({8, 3}).storage(), nullptr);
  // In channels last, pixels can be joined, but not pixels and channels.
  const Array image = counting({2, 3, 4, 5}).channels_last();
  EXPECT_EQ(image.reshape({2, 3, 20}).storage(), image.storage());
  EXPECT_NE(image.reshape({2, 60}).storage(), image.storage());
  EXPECT_EQ(image.reshape({2, 60}).to_vector<float>(), counting({120}).to_vector<float>());
  // With one channel or one pixel, both layouts are the same in memory.
  EXPECT_EQ(counting({2, 1, 4, 5}).channels_last().reshape({2, 20}).strides(), (Strides{20, 1}));
  const Array pixel = counting({2, 7, 1, 1}).channels_last();
  EXPECT_EQ(pixel.reshape({2, 7}).storage(), pixel.storage());
  // Repeated elements stay repeated.
  const Array repeated = counting({3}).unsqueeze(0).expand({4, 3});
  EXPECT_EQ(repeated.reshape({2, 2, 3}).storage(), repeated.storage());
  EXPECT_EQ(repeated.reshape({12}).to_vector<float>(), (Floats{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

// Random views of random shapes, including many dimensions of size 1. Every element must be the one that reading in
// order gives.
TEST(Array, ReshapeKeepsTheOrderOfElements) {
  Generator random(1);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.next_u32() % n); };
  int views = 0, copies = 0;
  for (int round = 0; round < 20000; ++round) {
    Shape large;
    const auto rank = below(5);
    for (int i = 0; i < rank; ++i) large.push_back(1 + below(4));
    Array view = counting(large);
    for (int i = 0; i < view.ndim(); ++i) {
      const auto begin = below(view.shape()[i]);
      if (below(3) == 0) view = view.slice(i, begin, begin + 1 + below(view.shape()[i] - begin));
    }
    for (int i = 0; i < 3 && view.ndim() > 1; ++i)
      if (below(2) == 0) view = view.transpose(below(view.ndim()), below(view.ndim()));
    if (below(4) == 0 && view.ndim() < 5) view = view.unsqueeze(below(view.ndim() + 1));
    if (below(6) == 0 && view.ndim() > 0 && view.shape()[0] == 1) {
      Shape wider = view.shape();
      wider[0] = 2;
      view = view.expand(wider);
    }
    // Any factorisation of the number of elements, with ones between the factors.
    Shape wanted;
    auto left = view.numel();
    while (wanted.ndim() < 5 && (left > 1 || below(2) == 0)) {
      auto factor = 1 + below(left);
      while (left % factor != 0) --factor;
      if (wanted.ndim() == 4) factor = left;
      wanted.push_back(factor);
      left /= factor;
    }
    std::vector<float> expected;
    for (std::int64_t i = 0; i < view.numel(); ++i) {
      auto rest = i, offset = view.offset();
      for (int d = view.ndim() - 1; d >= 0; --d) {
        offset += rest % view.shape()[d] * view.strides()[d];
        rest /= view.shape()[d];
      }
      expected.push_back(static_cast<const float*>(view.storage()->data())[offset]);
    }
    const Array reshaped = view.reshape(wanted);
    ASSERT_EQ(reshaped.shape(), wanted);
    ASSERT_EQ(reshaped.to_vector<float>(), expected) << view.shape() << view.strides() << " to " << wanted;
    (reshaped.storage() == view.storage() ? views : copies)++;
  }
  EXPECT_GT(views, 1000);
  EXPECT_GT(copies, 1000);
}

TEST(Array, Layouts) {
  const Array a = counting({2, 3, 4, 5});
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_FALSE(a.is_channels_last());
  const Array image = a.channels_last();
  EXPECT_TRUE(image.is_channels_last());
  EXPECT_FALSE(image.is_contiguous());
  EXPECT_EQ(image.to_vector<float>(), a.to_vector<float>());
  EXPECT_EQ(static_cast<float*>(image.raw())[1], 20);  // the next channel of the first pixel
  EXPECT_EQ(image.channels_last().storage(), image.storage());
  EXPECT_EQ(a.contiguous().storage(), a.storage());
  EXPECT_TRUE(image.contiguous().is_contiguous());
  EXPECT_TRUE(image.to(DType::f64).is_channels_last());
  EXPECT_TRUE(counting({2, 1, 4, 5}).is_channels_last());  // one channel has both layouts
  EXPECT_FALSE(counting({2, 3}).is_channels_last());
  EXPECT_FALSE(image.slice(1, 0, 2).is_channels_last());
  EXPECT_FALSE(a.transpose(0, 1).is_contiguous());
  EXPECT_TRUE(a.slice(0, 1, 2).is_contiguous());
  EXPECT_ERROR(counting({2, 3}).channels_last(), "(N, C, H, W)", "(2, 3)");
  EXPECT_NE(a.clone().storage(), a.storage());
  EXPECT_TRUE(image.clone().is_contiguous());
}

}  // namespace
}  // namespace tandem
