// sort_by_time() orders candidates by their measured times.
#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/fastest.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(CudaFastest, CandidatesThatWorkComeInTheOrderOfTheirTimes) {
  const Device gpu = Device::cuda(0);
  backend(gpu);
  constexpr std::size_t bytes = 16 << 20;
  const Array memory = Array::empty({bytes}, DType::u8, gpu);
  // Each candidate is the number of times that all of the memory is written. A negative candidate fails. The times are
  // so different that a busy machine does not change their order.
  std::vector<int> candidates{64, -1, 0, 8};
  cuda::sort_by_time(candidates, [&](int times) {
    if (times < 0) return false;
    for (int i = 0; i < times; ++i) TANDEM_CUDA(cudaMemsetAsync(memory.raw(), 0, bytes, cuda::current_stream()));
    return true;
  });
  EXPECT_EQ(candidates, (std::vector<int>{0, 8, 64}));
}

}  // namespace
}  // namespace tandem
