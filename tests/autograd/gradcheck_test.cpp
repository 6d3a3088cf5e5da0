#include <tandem/autograd/functions.h>
#include <tandem/autograd/gradcheck.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using Inputs = std::vector<Tensor>;

// x^2, with a backward that is wrong by the factor `factor`.
Tensor squared(const Tensor& x, double factor = 1) {
  return autograd::record("square", {x}, ops::zip(functors::Mul{}, x.value(), x.value()),
                          [in = autograd::Saved("square", x.value()), factor](const Array& grad, autograd::Needs) {
                            const Array twice = ops::map(functors::Affine{2 * factor, 0}, in);
                            return autograd::Gradients{ops::zip(functors::Mul{}, grad, twice)};
                          });
}

Tensor input(DType dtype = DType::f64) {
  return {ops::map(functors::Affine{0.5, -1.2}, testing::counting({2, 3}, dtype)), true};
}

TEST(Gradcheck, AcceptsWhatIsRight) {
  gradcheck([](const Inputs& in) { return squared(in[0]); }, {input()});
  gradcheck([](const Inputs& in) { return mul(squared(in[0]), in[1]); }, {input(), input()});
}

TEST(Gradcheck, FindsWhatIsWrong) {
  EXPECT_ERROR(gradcheck([](const Inputs& in) { return squared(in[0], 1.01); }, {input()}), "input 0", "element 0",
               "finite differences");
  const auto second_is_wrong = [](const Inputs& in) { return add(squared(in[0]), squared(in[1], -1)); };
  EXPECT_ERROR(gradcheck(second_is_wrong, {input(), input()}), "input 1");
  EXPECT_ERROR(gradcheck([](const Inputs& in) { return add(squared(in[0].detach()), in[1]); }, {input(), input()}),
               "input 0", "no gradient");
}

TEST(Gradcheck, LeavesTheInputsAsTheyWere) {
  const Tensor x = input();
  const auto before = x.value().to_vector<double>();
  gradcheck([](const Inputs& in) { return squared(in[0]); }, {x});
  EXPECT_EQ(x.value().to_vector<double>(), before);
}

TEST(Gradcheck, NeedsF64Leaves) {
  const auto function = [](const Inputs& in) { return squared(in[0]); };
  EXPECT_ERROR(gradcheck(function, {input(DType::f32)}), "f64", "f32");
  EXPECT_ERROR(gradcheck(function, {input().detach()}), "requires a gradient");
  EXPECT_ERROR(gradcheck(function, {input() * 2}), "leaves");
  EXPECT_ERROR(gradcheck([](const Inputs& in) { return cast(in[0], DType::f32); }, {input()}), "f32", "output");
}

}  // namespace
}  // namespace tandem
