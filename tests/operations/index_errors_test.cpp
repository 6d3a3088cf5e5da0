#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "operations/device.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::testing {
namespace {

Array numbers(const Shape& shape) { return counting(shape).to(device); }
Array indices(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Array::from(values, shape).to(device);
}
// On a GPU, the error is thrown when the result is read.
void read(const Tensor& x) { x.value().to_vector<double>(); }

TEST(IndexErrors, OutOfRangeSaysWhere) {
  const Tensor x = numbers({3, 4});
  for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const std::string index = "index " + std::to_string(wrong);
    const Array list = indices({0, 3, wrong}, {3}), grid = indices({0, 1, 2, wrong}, {2, 2});
    EXPECT_ERROR(read(index_select(x, 1, list)), "index_select", index, "position 2", "0 to 3");
    EXPECT_ERROR(read(gather(x, 1, grid)), "gather", index, "position 3", "size 4", "0 to 3");
    EXPECT_ERROR(read(scatter(x, 1, grid, numbers({2, 2}))), "scatter", index, "position 3");
    EXPECT_ERROR(read(scatter(x, 1, grid, 1.0)), "scatter", index, "position 3");
    EXPECT_ERROR(read(scatter_add(x, 1, grid, numbers({2, 2}))), "scatter_add", index, "position 3");
    EXPECT_ERROR(read(index_add(x, 1, list, numbers({3, 3}))), "index_add", index, "position 2");
    EXPECT_ERROR(read(embedding(grid, numbers({4, 5}))), "embedding", index, "position 3", "0 to 3");
    EXPECT_ERROR(read(one_hot(grid, 4)), "one_hot", index, "position 3");
  }
  read(x);  // no error remains
}

TEST(IndexErrors, SayWhatDoesNotFit) {
  const Tensor x = numbers({3, 4});
  const Array list = indices({0, 1}, {2});
  EXPECT_ERROR(index_select(x, 0, numbers({2})), "index_select", "i64 or i32", "f32");
  EXPECT_ERROR(index_select(x, 0, list.reshape({1, 2})), "index_select", "(1, 2)");
  EXPECT_ERROR(index_select(x, 2, list), "2");
  EXPECT_ERROR(gather(x, 0, list), "gather", "(2)", "(3, 4)");
  EXPECT_ERROR(gather(x, 0, indices({0, 0, 0, 0, 0}, {1, 5})), "gather", "(1, 5)", "(3, 4)", "dimension 1");
  EXPECT_ERROR(scatter_add(x, 0, indices({0, 0}, {1, 2}), numbers({1, 1})), "scatter_add", "the source", "(1, 1)");
  EXPECT_ERROR(scatter(x, 0, indices({0, 0}, {1, 2}), numbers({1, 2}).to(DType::f64)), "scatter", "f64", "f32");
  EXPECT_ERROR(index_add(x, 0, list, numbers({3, 4})), "index_add", "(2, 4)", "(3, 4)");
  EXPECT_ERROR(masked_fill(x, list, 1), "masked_fill", "bool", "i64");
  EXPECT_ERROR(masked_fill(indices({1}, {1}), ops::ones({1}, DType::boolean, device), 0.5), "masked_fill", "0.5",
               "i64");
  EXPECT_ERROR(masked_select(x, ops::ones({3}, DType::boolean, device)), "masked_select", "(3, 4)", "(3)");
  EXPECT_ERROR(embedding(list, numbers({3})), "embedding", "(V, D)", "(3)");
  EXPECT_ERROR(embedding(list, x, 3), "embedding", "padding_idx 3", "(3, 4)");
  EXPECT_ERROR(one_hot(indices({}, {0})), "one_hot", "is empty: specify num_classes");
  EXPECT_ERROR(index_select(numbers({0, 4}), 0, list), "index_select", "no index is valid", "(0, 4)");
}

TEST(IndexErrors, AChangedIndexIsNoticed) {
  const Tensor x(numbers({3, 4}), true);
  Array list = indices({0, 1}, {2});
  const Tensor y = index_select(x, 0, list);
  list.fill(0);
  EXPECT_ERROR(y.backward({.gradient = ops::ones({2, 4}, DType::f32, device)}), "index_select", "changed in place");
}

}  // namespace
}  // namespace tandem::testing
