// Arrays as text.
#include <tandem/core/array/print.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>

#include "support/arrays.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::counting;

TEST(Print, AlignsColumns) {
  EXPECT_EQ(values_to_string(array_of({1, -2.5, 100, 0.125}, {2, 2})),
            "\n[[  1.0000,  -2.5000],\n [100.0000,   0.1250]]");
  EXPECT_EQ(values_to_string(counting({2, 1, 2}, DType::i32)), "\n[[[0, 1]],\n\n [[2, 3]]]");
  EXPECT_EQ(values_to_string(array_of({1, -20, 300})), "[  1., -20., 300.]");
}

TEST(Print, ShowsEveryKindOfValue) {
  EXPECT_EQ(values_to_string(array_of({1, NAN, INFINITY, -INFINITY})), "[  1.,  nan,  inf, -inf]");
  EXPECT_EQ(values_to_string(counting({2}, DType::boolean)), "[false,  true]");
  EXPECT_EQ(values_to_string(counting({2}, DType::u8)), "[0, 1]");
  EXPECT_EQ(values_to_string(counting({2}, DType::bf16)), "[0., 1.]");
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(values_to_string(Array::from(std::vector<std::int64_t>{large}, {1})), "[4611686018427387905]");
  EXPECT_EQ(values_to_string(ops::scalar(2.5)), "2.5000");
  EXPECT_EQ(values_to_string(Array::empty({3, 0})), "[]");
  EXPECT_EQ(values_to_string(array_of({0, 0})), "[0., 0.]");
}

TEST(Print, TakesPowersOfTenWhereNeeded) {
  EXPECT_EQ(values_to_string(array_of({1e-6f, 0.5f})), "[1.0000e-06, 5.0000e-01]");
  EXPECT_EQ(values_to_string(array_of({1e9f, -1})), "[ 1.0000e+09, -1.0000e+00]");
}

TEST(Print, BreaksLongRows) {
  const auto text = values_to_string(counting({100}, DType::i64));
  EXPECT_NE(text.find(",\n "), std::string::npos);
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    EXPECT_LE(end - begin, 101u);
    begin = end + 1;
  }
}

TEST(Print, CutsLargeArrays) {
  EXPECT_EQ(values_to_string(counting({1001}, DType::i64)), "[   0,    1,    2, ...,  998,  999, 1000]");
  EXPECT_EQ(values_to_string(counting({4, 500}, DType::i64)),
            "\n[[   0,    1,    2, ...,  497,  498,  499],\n [ 500,  501,  502, ...,  997,  998,  999],\n"
            " [1000, 1001, 1002, ..., 1497, 1498, 1499],\n [1500, 1501, 1502, ..., 1997, 1998, 1999]]");
  const auto cut = values_to_string(counting({300, 4}, DType::i64));
  EXPECT_NE(cut.find("],\n ...,\n ["), std::string::npos);
  EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 7);
  // Views are printed too.
  EXPECT_EQ(values_to_string(counting({1001, 2}, DType::i64).select(1, 0)),
            "[   0,    2,    4, ..., 1996, 1998, 2000]");
}

}  // namespace
}  // namespace tandem
