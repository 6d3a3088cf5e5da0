// Operators, in a program that uses both namespaces.
#include <tandem/autograd/functions.h>

#include <gtest/gtest.h>

#include <vector>

#include "support/arrays.h"
#include "support/temporary_folder.h"

using namespace std;
using namespace tandem;
using tandem::testing::array_of;

namespace {

vector<float> values_of(const Array& array) { return array.to_vector<float>(); }
vector<bool> bools_of(const Array& array) {
  vector<bool> bools;
  for (const float v : array.to(DType::f32).contiguous().to_vector<float>()) bools.push_back(v != 0);
  return bools;
}

TEST(Like, TakesTensors) {
  const Tensor x = Tensor(array_of({1, 2, 3}), true) * 2;
  const vector<float> all_two{2, 2, 2};
  EXPECT_EQ(values_of(zeros_like(x)), (vector<float>{0, 0, 0}));
  EXPECT_EQ(values_of(ones_like(x)), (vector<float>{1, 1, 1}));
  EXPECT_EQ(values_of(full_like(x, 2)), all_two);
  EXPECT_EQ(values_of(full_like(x.value(), 2)), all_two);
  EXPECT_EQ(zeros_like(x, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(empty_like(x, DType::i64).dtype(), DType::i64);
  EXPECT_EQ(empty_like(x).shape(), x.shape());
  Generator first(1), second(1);
  EXPECT_EQ(values_of(randn_like(x, {}, first)), values_of(ops::randn({3}, DType::f32, {}, second)));
  EXPECT_EQ(values_of(rand_like(x, {}, first)), values_of(ops::rand({3}, DType::f32, {}, second)));
}

TEST(Operators, Comparisons) {
  const Tensor x(array_of({1, 2, 3})), y(array_of({3, 2, 1}));
  EXPECT_EQ((x < y).dtype(), DType::boolean);
  EXPECT_EQ(bools_of(x < y), (vector<bool>{true, false, false}));
  EXPECT_EQ(bools_of(x <= y), (vector<bool>{true, true, false}));
  EXPECT_EQ(bools_of(x > y), (vector<bool>{false, false, true}));
  EXPECT_EQ(bools_of(x >= y), (vector<bool>{false, true, true}));
  EXPECT_EQ(bools_of(x == y), (vector<bool>{false, true, false}));
  EXPECT_EQ(bools_of(x != y), (vector<bool>{true, false, true}));
  EXPECT_EQ(bools_of(x < 2), (vector<bool>{true, false, false}));
  EXPECT_EQ(bools_of(2 < x), (vector<bool>{false, false, true}));
  EXPECT_EQ(bools_of(x <= 2), (vector<bool>{true, true, false}));
  EXPECT_EQ(bools_of(2 <= x), (vector<bool>{false, true, true}));
  EXPECT_EQ(bools_of(x > 1.5), (vector<bool>{false, true, true}));
  EXPECT_EQ(bools_of(1.5 > x), (vector<bool>{true, false, false}));
  EXPECT_EQ(bools_of(x >= 2), (vector<bool>{false, true, true}));
  EXPECT_EQ(bools_of(2 >= x), (vector<bool>{true, true, false}));
  EXPECT_EQ(bools_of(x == 2), (vector<bool>{false, true, false}));
  EXPECT_EQ(bools_of(2 == x), (vector<bool>{false, true, false}));
  EXPECT_EQ(bools_of(x != 2), (vector<bool>{true, false, true}));
  EXPECT_EQ(bools_of(2 != x), (vector<bool>{true, false, true}));
  // Arrays work too, and results can be operands again.
  const Array labels = array_of({1, 5, 3});
  EXPECT_EQ(mean(cast(labels == x, DType::f32)).item(), 2.0f / 3);
  EXPECT_EQ(values_of(where(x > 1, x, 0).value()), (vector<float>{0, 2, 3}));
}

TEST(Operators, Bools) {
  const Tensor x(array_of({-1, 0.5, 2}));
  EXPECT_EQ(bools_of((x > 0) & (x < 1)), (vector<bool>{false, true, false}));
  EXPECT_EQ(bools_of((x < 0) | (x > 1)), (vector<bool>{true, false, true}));
  EXPECT_EQ(bools_of((x > 0) ^ (x > 1)), (vector<bool>{false, true, false}));
  EXPECT_EQ(bools_of(~(x > 0)), (vector<bool>{true, false, false}));
  EXPECT_ERROR(x & (x > 0), "operator&", "bools", "f32", "logical_and()");
  EXPECT_ERROR((x > 0) | x, "operator|", "f32");
  EXPECT_ERROR(~x, "operator~", "f32");
}

TEST(Operators, InPlace) {
  Tensor x(array_of({1, 2})), same = x;
  x += Tensor(array_of({10, 20}));
  EXPECT_EQ(values_of(same.value()), (vector<float>{11, 22})) << "all handles see the change";
  x -= 1;
  x *= 2;
  x /= Tensor(array_of({4, 2}));
  EXPECT_EQ(values_of(x.value()), (vector<float>{5, 21}));
  x[0] += 1;
  EXPECT_EQ(values_of(x.value()), (vector<float>{6, 21}));

  // A running total has a gradient.
  const Tensor weight(array_of({3, 4}), true);
  Tensor total(ops::zeros({}));
  for (int i = 1; i <= 3; ++i) total += sum(weight * i);
  total.backward();
  EXPECT_EQ(values_of(weight.grad()), (vector<float>{6, 6}));
  EXPECT_ERROR(weight += 1, "add_", "leaf", "NoGrad");
}

TEST(Operators, Parts) {
  const Tensor x(tandem::testing::counting({3, 2}), true);
  EXPECT_EQ(values_of(x[1].value()), (vector<float>{2, 3}));
  EXPECT_EQ(x[-1][0].item(), 4);
  (x[2] * 2)[1].backward();
  EXPECT_EQ(values_of(x.grad()), (vector<float>{0, 0, 0, 0, 0, 2}));
  EXPECT_ERROR(x[3], "select", "3");
}

TEST(Operators, OneDimensionIsANumber) {
  const Tensor x(tandem::testing::counting({2, 3}));
  EXPECT_EQ(values_of(sum(x, 1).value()), (vector<float>{3, 12}));
  EXPECT_EQ(values_of(sum(x, 0).value()), (vector<float>{3, 5, 7}));
  EXPECT_EQ(mean(x, -1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(values_of(var(x, 1).value()), (vector<float>{1, 1}));
  EXPECT_EQ(values_of(stddev(x, 1).value()), (vector<float>{1, 1}));
  EXPECT_EQ(values_of(amax(x, 0).value()), (vector<float>{3, 4, 5}));
  EXPECT_EQ(reshape(x, -1).shape(), Shape{6});
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1}));
}

}  // namespace
