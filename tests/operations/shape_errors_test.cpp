#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::testing {
namespace {

Tensor numbers(const Shape& shape) { return counting(shape); }

TEST(ShapeErrors, SayWhatDoesNotFit) {
  const Tensor x = numbers({2, 3, 4});
  EXPECT_ERROR(view(transpose(x, 0, 1), {6, 4}), "view", "(3, 2, 4)", "(6, 4)", "reshape");
  EXPECT_ERROR(reshape(x, {5, -1}), "reshape", "(2, 3, 4)", "(5, -1)");
  EXPECT_ERROR(t(x), "t: ", "(2, 3, 4)");
  EXPECT_ERROR(cat({x, numbers({2, 4, 4})}, 0), "cat", "array 1", "(2, 4, 4)", "(2, 3, 4)", "dimension 0");
  EXPECT_ERROR(cat({x, numbers({3})}), "cat", "array 1", "(3)");
  EXPECT_ERROR(cat({x, Tensor(ops::scalar(1))}), "cat", "scalar", "stack");
  EXPECT_ERROR(cat(std::vector<Tensor>{}), "cat", "at least one");
  EXPECT_ERROR(stack({x, numbers({2, 3})}), "stack", "(2, 3)", "(2, 3, 4)");
  EXPECT_ERROR(split(x, 0), "split", "(2, 3, 4)");
  EXPECT_ERROR(split(x, std::vector<std::int64_t>{1, 1}, 1), "split", "add up to 2", "has 3");
  EXPECT_ERROR(split(x, std::vector<std::int64_t>{4, -1}, 1), "split", "(2, 3, 4)");
  EXPECT_ERROR(chunk(x, 0), "chunk");
  EXPECT_ERROR(pad(x, {1}), "pad", "two numbers");
  EXPECT_ERROR(pad(x, {-3, -2}), "pad", "leave nothing", "(2, 3, 4)");
  EXPECT_ERROR(pad(x, {4, 0}, PadMode::reflect), "pad", "less than the size");
  EXPECT_ERROR(pad(x, {5, 0}, PadMode::circular), "pad", "no more than the size");
  EXPECT_ERROR(pad(x, {-1, 0}, PadMode::replicate), "pad", "negative");
  EXPECT_ERROR(pad(x, {std::int64_t{1} << 62, std::int64_t{1} << 62}), "pad", "64 bits");
  EXPECT_ERROR(roll(x, {1, 2}, {0}), "roll", "(1, 2)", "(0)");
  EXPECT_ERROR(flip(x, {0, -3}), "flip", "twice");
  EXPECT_ERROR(repeat(x, {2}), "repeat", "(2)", "(2, 3, 4)");
  EXPECT_ERROR(repeat(x, {1, 1, -1}), "repeat", "negative");
  EXPECT_ERROR(tril(numbers({3})), "tril", "(3)");
}

TEST(ShapeErrors, PartsGatherTheirGradientsOncePerPass) {
  const Tensor x(counting({3, 2}), true);
  const auto rows = unbind(x);
  const Tensor y = rows[0] * 2 + rows[2] * 3;
  const Array one = ops::ones({2});
  y.backward({.gradient = one, .retain_graph = true});
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 0, 0, 3, 3}));
  y.backward({.gradient = one, .retain_graph = true});
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 4, 0, 0, 6, 6}));
  rows[1].backward({.gradient = one});
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 4, 1, 1, 6, 6}));
}

}  // namespace
}  // namespace tandem::testing
