// Tests how views become the arguments of cuBLAS and cuDNN.
#include <tandem/core/cuda/layouts.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/device/plan_cache.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

using cuda::ColumnMajor;

Array view(const Shape& shape, const Strides& strides) {
  return Array(Array::empty({4096}).storage(), shape, strides, 0, DType::f32);
}

TEST(LibraryLayouts, AMatrixIsReadAsTheTransposeOfAColumnMajorOne) {
  struct Case {
    Shape shape;
    Strides strides;
    std::optional<ColumnMajor> expected;
    const char* what;
  };
  const Case cases[] = {
      {{3, 5}, {5, 1}, ColumnMajor{5, 3, 5, false}, "row-major"},
      {{3, 5}, {9, 1}, ColumnMajor{5, 3, 9, false}, "columns of a wider matrix"},
      {{3, 5}, {1, 3}, ColumnMajor{3, 5, 3, true}, "a transpose"},
      {{3, 5}, {1, 8}, ColumnMajor{3, 5, 8, true}, "a transpose of rows of a longer matrix"},
      {{1, 5}, {7, 1}, ColumnMajor{5, 1, 5, false}, "one row, whose stride says nothing"},
      {{1, 5}, {0, 1}, ColumnMajor{5, 1, 5, false}, "one row, expanded"},
      {{1, 5}, {1, 4}, ColumnMajor{1, 5, 4, true}, "one row with gaps"},
      {{5, 1}, {1, 1}, ColumnMajor{1, 5, 1, false}, "one column"},
      {{5, 1}, {1, 99}, ColumnMajor{1, 5, 1, false}, "one column, whose stride says nothing"},
      {{5, 1}, {4, 4}, ColumnMajor{1, 5, 4, false}, "one column with gaps"},
      {{1, 1}, {0, 0}, ColumnMajor{1, 1, 1, false}, "one number"},
      {{3, 5}, {0, 1}, std::nullopt, "a row repeated: its rows overlap"},
      {{3, 5}, {1, 0}, std::nullopt, "a column repeated"},
      {{3, 5}, {1, 1}, std::nullopt, "a sliding window"},
      {{3, 5}, {4, 1}, std::nullopt, "rows that overlap by one"},
      {{3, 5}, {10, 2}, std::nullopt, "every second column"},
      {{1, 5}, {5, 0}, std::nullopt, "one number repeated"},
  };
  for (const Case& c : cases) EXPECT_EQ(cuda::transpose_of(view(c.shape, c.strides)), c.expected) << c.what;
}

TEST(LibraryLayouts, AlignmentIsThatOfTheAddress) {
  const auto at = [](std::uintptr_t address) { return cuda::alignment_of(reinterpret_cast<const void*>(address)); };
  EXPECT_EQ(at(512), 256u);
  EXPECT_EQ(at(256), 256u);
  EXPECT_EQ(at(128), 128u);
  EXPECT_EQ(at(512 + 16), 16u);
  EXPECT_EQ(at(512 + 2), 2u);
}

TEST(LibraryLayouts, APackedBiasIsTheBiasItselfWhereItFits) {
  const Array all = Array::from(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {8});
  EXPECT_EQ(cuda::packed(all, DType::f32).raw(), all.raw());
  const Array odd = all.slice(0, 1, 4);
  for (const Array& bias : {odd, all.reshape({4, 2}).select(1, 1)}) {
    const Array packed = cuda::packed(bias, DType::f32);
    EXPECT_GE(cuda::alignment_of(packed.raw()), 16u);
    EXPECT_TRUE(packed.is_contiguous());
    EXPECT_EQ(packed.to_vector<float>(), bias.to_vector<float>());
  }
  EXPECT_EQ(cuda::packed(odd, DType::bf16).dtype(), DType::bf16);
}

TEST(PlanCache, BuildsOncePerKeyAndForgetsWhatWasNotUsedForTheLongestTime) {
  constexpr int most = 4;
  PlanCache<int, most> plans;
  int built = 0;
  const auto build = [&] { return std::make_unique<int>(++built); };
  EXPECT_EQ(plans.get({1, 2}, build), 1);
  EXPECT_EQ(plans.get({2, 1}, build), 2);
  EXPECT_EQ(plans.get({1, 2}, build), 1);
  for (int i = 0; i < most - 1; ++i) plans.get({3, i}, build);  // one plan too many: {2, 1} is evicted
  EXPECT_EQ(built, most + 1);
  EXPECT_EQ(plans.get({1, 2}, build), 1);
  EXPECT_EQ(plans.get({3, 0}, build), 3);
  EXPECT_EQ(built, most + 1);
  EXPECT_EQ(plans.get({2, 1}, build), most + 2);  // {3, 1} was evicted
  EXPECT_EQ(plans.get({1, 2}, build), 1);
  EXPECT_EQ(plans.get({3, 1}, build), most + 3);
}

TEST(PlanCache, KeepsNothingOfABuildThatFailed) {
  PlanCache<int, 4> plans;
  EXPECT_THROW(plans.get({1}, []() -> std::unique_ptr<int> { throw Error("no"); }), Error);
  EXPECT_EQ(plans.get({1}, [] { return std::make_unique<int>(7); }), 7);
}

TEST(MathMode, StartsAsPyTorchDoes) {
  constexpr MathMode defaults;
  EXPECT_FALSE(defaults.tf32_matmul);
  EXPECT_TRUE(defaults.tf32_conv);
  EXPECT_FALSE(defaults.deterministic);
  const MathMode before = math_mode();
  set_tf32(true, false);
  set_deterministic(true);
  EXPECT_TRUE(math_mode().tf32_matmul);
  EXPECT_FALSE(math_mode().tf32_conv);
  EXPECT_TRUE(math_mode().deterministic);
  set_tf32(before.tf32_matmul, before.tf32_conv);
  set_deterministic(before.deterministic);
}

}  // namespace
}  // namespace tandem
