// Arguments that the element-wise operations refuse.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::testing {
namespace {

TEST(ElementwiseErrors, NameTheOperationAndTheRule) {
  const Tensor x(counting({2, 3})), pair(counting({2})), count(counting({3}, DType::i64));
  const Tensor flags(ones({3}, DType::boolean));
  EXPECT_ERROR(x + pair, "(2, 3)", "(2)", "broadcast");
  EXPECT_ERROR(lt(x, pair), "(2, 3)", "(2)", "broadcast");
  EXPECT_ERROR(where(flags.value(), pair, x), "where", "(2)", "broadcast");
  EXPECT_ERROR(where(x.value(), x, x), "where", "bool", "f32");
  EXPECT_ERROR(flags - flags, "bool", "logical_xor");
  EXPECT_ERROR(neg(flags), "bool");
  EXPECT_ERROR(pow(count, -1), "pow", "-1", "i64");
  EXPECT_ERROR(clamp(x), "clamp", "min");
  EXPECT_ERROR(affine(count, 0.5, 0), "0.5", "i64");
}

TEST(ElementwiseErrors, DivisionsAndGates) {
  const Tensor count(counting({3}, DType::i32)), zero(zeros({3}, DType::i64)), x(counting({3, 5}));
  EXPECT_ERROR(floor_divide(count, zero), "floor_divide", "divided by 0");
  EXPECT_ERROR(remainder(count, 0), "remainder", "divided by 0");
  EXPECT_ERROR(fmod(count, zero), "fmod", "divided by 0");
  EXPECT_ERROR(glu(x), "glu", "(3, 5)", "odd size");
  EXPECT_ERROR(glu(count), "glu", "floating", "i32");
  EXPECT_ERROR(prelu(x, Tensor(counting({2}))), "prelu", "(5)", "(2)");
  EXPECT_ERROR(prelu(x, Tensor(counting({1}, DType::f64))), "prelu", "the same floating dtype");
}

TEST(ElementwiseErrors, IntegersWrapAround) {
  const double lowest = -2147483648.0;
  const Tensor least(ops::full({1}, lowest, DType::i32)), minus(ops::full({1}, -1, DType::i32)),
      large(ops::full({1}, 65537, DType::i32));
  EXPECT_EQ(floor_divide(least, minus).item(), lowest);
  EXPECT_EQ(remainder(least, minus).item(), 0);
  EXPECT_EQ(fmod(least, minus).item(), 0);
  EXPECT_EQ(neg(least).item(), lowest);
  EXPECT_EQ(abs(least).item(), lowest);
  EXPECT_EQ((least + minus).item(), 2147483647);
  EXPECT_EQ((minus - least - 1 - least).item(), -2);
  EXPECT_EQ((large * large).item(), 131073);
  EXPECT_EQ((large * 65537).item(), 131073);
  EXPECT_EQ(square(large).item(), 131073);
  EXPECT_EQ(pow(large, 3).item(), 196609);
  EXPECT_EQ(matmul(large, large).item(), 131073);
}

TEST(ElementwiseErrors, NumbersDoNotWiden) {
  const Tensor low(counting({3}, DType::bf16)), count(counting({3}, DType::i32)), flags(ones({3}, DType::boolean));
  EXPECT_EQ((low + 0.1).dtype(), DType::bf16);
  EXPECT_EQ((2 * count).dtype(), DType::i32);
  EXPECT_EQ((count * 2.0).dtype(), DType::f32);
  EXPECT_EQ((count / 2).dtype(), DType::f32);
  EXPECT_EQ((flags + 1).dtype(), DType::i64);
  EXPECT_EQ((flags + flags).dtype(), DType::boolean);
  EXPECT_EQ((1 - Tensor(counting({2}))).value().to_vector<float>(), (std::vector<float>{1, 0}));
  const Array array = counting({2});
  EXPECT_EQ((array + array).value().to_vector<float>(), (std::vector<float>{0, 2}));  // an Array is a Tensor
}

}  // namespace
}  // namespace tandem::testing
