// Tests concatenation on the GPU, with one kernel if possible.
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "conformance/compare.h"
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

using testing::expect_same;
using testing::gpu;
using testing::numbers;

// Joins the parts on both devices. Returns the number of kernels that the GPU launched, or -1 if the GPU does not
// report it.
std::int64_t kernels_for(const std::vector<Array>& parts, int dim) {
  std::vector<Array> there;
  for (const Array& part : parts) there.push_back(part.to(gpu));
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
#endif
  const Array found = ops::cat(there, dim), expected = ops::cat(parts, dim);
  std::int64_t kernels = -1;
#ifdef TANDEM_EMULATED_CUDA
  kernels = std::ranges::count_if(emulation::driver().log, [](const auto& line) { return line.starts_with("launch"); });
#endif
  EXPECT_EQ(found.strides(), expected.strides());
  expect_same(expected, found, 0);
  return kernels;
}

void expect_one_kernel(std::int64_t kernels) {
  if (kernels >= 0) {
    EXPECT_EQ(kernels, 1);
  }
}

TEST(CudaCat, JoinsAlongAnyDimension) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (int dim = 0; dim < 3; ++dim)
      for (const std::int64_t size : {1, 3, 8, 24}) {
        SCOPED_TRACE(::testing::Message() << dtype << ", dimension " << dim << ", size " << size);
        Shape first{3, 5, 8}, second = first;
        first[dim] = size;
        second[dim] = 2 * size;
        expect_one_kernel(kernels_for({numbers(first, 1, dtype), numbers(second, 2, dtype)}, dim));
      }
}

TEST(CudaCat, JoinsImagesInTheOrderOfTheirMemory) {
  for (int dim = 0; dim < 4; ++dim) {
    Shape other{2, 3, 4, 5};
    other[dim] += 1;
    expect_one_kernel(kernels_for({numbers({2, 3, 4, 5}).channels_last(), numbers(other, 2).channels_last()}, dim));
  }
}

TEST(CudaCat, ConvertsToTheWidestDtype) {
  expect_one_kernel(kernels_for({numbers({30}, 1, DType::bf16), numbers({41}, 2), numbers({8}, 3, DType::f16)}, 0));
}

TEST(CudaCat, TakesPartsOfManyBlocksAndEmptyOnes) {
  expect_one_kernel(kernels_for({numbers({5000}), numbers({0}), numbers({2048}, 2), numbers({1}, 3)}, 0));
}

TEST(CudaCat, NeedsMoreKernelsForVeryManyParts) {
  std::vector<Array> parts;
  for (unsigned i = 0; i < 300; ++i) parts.push_back(numbers({1 + i % 5, 3}, i));
  EXPECT_LE(kernels_for(parts, 0), 5);
}

TEST(CudaCat, CopiesOtherDtypesAndViewsOneByOne) {
  kernels_for({numbers({4, 6}, 1, DType::f64), numbers({4, 2}, 2, DType::f64)}, 1);
  kernels_for({numbers({4, 6}).transpose(0, 1), numbers({2, 4}, 2)}, 0);
  kernels_for({Array::from(std::vector<std::int64_t>{1, 2}, {2}), Array::from(std::vector<std::int64_t>{3}, {1})}, 0);
}

}  // namespace
}  // namespace tandem
