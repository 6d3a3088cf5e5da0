// Shapes and strides.
#include <tandem/core/array/array.h>

#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

TEST(Shape, PrintsAndCounts) {
  std::ostringstream out;
  out << Shape{2, 3} << Shape{} << Shape{7};
  EXPECT_EQ(out.str(), "(2, 3)()(7)");
  EXPECT_EQ(Shape{}.product(), 1);
  EXPECT_EQ((Shape{2, 0, 3}.product()), 0);
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3} == Shape{2, 3, 1}));
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1, 1}), "at most 6", "7");
  Shape full{1, 1, 1, 1, 1, 1};
  EXPECT_ERROR(full.push_back(1), "at most 6");
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((Shape{0, large, large}.product()), 0);
  EXPECT_ERROR((Shape{large, large}.product()), "(1099511627776, 1099511627776)", "64 bits");
}

TEST(Shape, OfOneNumber) {
  const auto same = [](const Dims& dims) { return dims; };
  EXPECT_EQ(same(3), Dims{3});
  EXPECT_EQ(same(std::size_t{3}), Dims{3});
  EXPECT_EQ(same(-1), Dims{-1});
  EXPECT_EQ(same({}), Dims());
  static_assert(!std::is_convertible_v<bool, Dims>, "sum(x, true) has forgotten a dimension");
  static_assert(!std::is_convertible_v<double, Dims>);
}

TEST(Shape, EntriesFromBothEnds) {
  Shape shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  shape[-1] = 5;
  EXPECT_EQ(shape, (Shape{2, 3, 5}));
  const Shape& fixed = shape;
  for (const int i : {3, -4, 7, 6, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    EXPECT_ERROR(fixed[i], std::to_string(i), "(2, 3, 5)");
    EXPECT_ERROR(shape[i] = 1, std::to_string(i), "(2, 3, 5)");
  }
  EXPECT_ERROR(Shape{}[0], "()");
}

TEST(Shape, IsMadeFromAVector) {
  const std::vector<std::int64_t> sizes{2, 3, 4};
  EXPECT_EQ(Shape(sizes), (Shape{2, 3, 4}));
}

TEST(Shape, Strides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), (Strides{}));
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  EXPECT_ERROR(channels_last_strides({2, 3}), "(N, C, H, W)", "(2, 3)");
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast_shape({3, 1, 5}, {4, 1}, "add"), (Shape{3, 4, 5}));
  EXPECT_EQ(broadcast_shape({}, {2, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shape({0}, {1}, "add"), (Shape{0}));
  EXPECT_ERROR(broadcast_shape({2, 3}, {2}, "add"), "add", "(2, 3)", "(2)");
  EXPECT_ERROR(broadcast_shape({0}, {2}, "add"), "add", "(0)", "(2)");
}

}  // namespace
}  // namespace tandem
