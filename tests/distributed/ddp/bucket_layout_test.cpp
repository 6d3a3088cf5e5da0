#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/bucket_layout.h>

#include <gtest/gtest.h>

namespace tandem::distributed {
namespace {

NamedTensor parameter(const std::string& name, std::int64_t elements, DType dtype = DType::f32) {
  return {name, Tensor(ops::ones({elements}, dtype), true)};
}

BucketLayout in_reverse(const std::vector<NamedTensor>& parameters, BucketSizes sizes) {
  return assign_buckets(parameters, reverse_registration_order(parameters), sizes);
}

TEST(Buckets, follow_reverse_order_and_close_once_they_hold_their_size) {
  // Each parameter has 400 bytes. The first bucket is full at 500 bytes, the others at 1000.
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < 8; ++i) parameters.push_back(parameter(std::to_string(i), 100));
  EXPECT_EQ(in_reverse(parameters, {.first_bytes = 500, .bytes = 1000}), (BucketLayout{{7, 6}, {5, 4, 3}, {2, 1, 0}}));
  EXPECT_EQ(in_reverse(parameters, {}), (BucketLayout{{7, 6, 5, 4, 3, 2, 1, 0}}));
  EXPECT_EQ(in_reverse(parameters, {.first_bytes = 1, .bytes = 1}),
            (BucketLayout{{7}, {6}, {5}, {4}, {3}, {2}, {1}, {0}}));
}

TEST(Buckets, follow_the_order_that_is_given) {
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < 5; ++i) parameters.push_back(parameter(std::to_string(i), 100));
  EXPECT_EQ(assign_buckets(parameters, {2, 0, 4, 1, 3}, {.first_bytes = 400, .bytes = 800}),
            (BucketLayout{{2}, {0, 4}, {1, 3}}));
}

TEST(Buckets, hold_one_dtype_and_no_frozen_parameter_and_come_as_they_are_full) {
  std::vector<NamedTensor> parameters{parameter("a", 100), parameter("b", 100, DType::f64), parameter("c", 100),
                                      parameter("d", 100, DType::f64), parameter("e", 100)};
  parameters[2].tensor.set_requires_grad(false);
  // e opens the first bucket, but a, which completes this bucket, comes after b.
  EXPECT_EQ(in_reverse(parameters, {}), (BucketLayout{{3, 1}, {4, 0}}));
}

}  // namespace
}  // namespace tandem::distributed
