// Of several ways to compute the same, the fastest is found by trying them.
#include <tandem/core/array/array.h>
#include <tandem/core/cuda/fastest.h>
#include <tandem/core/device/backend.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(CudaFastest, CandidatesThatWorkComeInTheOrderOfTheirTimes) {
  const Device gpu = Device::cuda(0);
  backend(gpu);
  const Array memory = Array::empty({128 << 20}, DType::u8, gpu);
  // Each writes so many bytes; a negative number does not work.
  std::vector<int> candidates{128 << 20, -1, 1 << 10, 32 << 20};
  cuda::sort_by_time(candidates, [&](int bytes) {
    if (bytes < 0) return false;
    TANDEM_CUDA(cudaMemsetAsync(memory.raw(), 0, static_cast<std::size_t>(bytes), cuda::current_stream()));
    return true;
  });
  EXPECT_EQ(candidates, (std::vector<int>{1 << 10, 32 << 20, 128 << 20}));
}

}  // namespace
}  // namespace tandem
