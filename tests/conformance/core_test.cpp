// Every raw operation has the same result on the GPU as on the CPU.
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "conformance/compare.h"
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

namespace tandem {
namespace {

using testing::expect_same;
using testing::numbers;

const Device cuda = Device::cuda(0);

TEST(CudaCore, CopiesToTheDeviceAndBack) {
  const Array a = numbers({3, 5, 7}).permute({2, 0, 1});
  const Array there = a.to(cuda);
  EXPECT_EQ(there.device(), cuda);
  EXPECT_EQ(there.to(Device{}).to_vector<float>(), a.to_vector<float>());
}

// Sizes near the size of the upload ring, with many uploads before the GPU has read the first one.
TEST(CudaCore, UploadsDoNotWaitAndDoNotMixUp) {
  std::vector<Array> there;
  std::vector<float> firsts;
  const auto upload = [&](std::int64_t count) {
    const auto first = static_cast<float>(there.size());
    Array here = ops::full({count}, first);
    there.push_back(here.to(cuda));
    here.fill(-1);  // the data has already been copied
    firsts.push_back(first);
  };
  for (int i = 0; i < 300; ++i) upload(1 + i % 7);
  for (const std::int64_t count : {1 << 18, 100000, 1 << 20, 3, (1 << 20) + 1, 300000}) upload(count);
  for (int i = 0; i < 40; ++i) upload(10000 + 1000 * (i % 5));
  for (std::size_t i = 0; i < there.size(); ++i) {
    const std::int64_t count = there[i].numel();
    for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1})
      EXPECT_EQ(there[i].select(0, at).item(), firsts[i]) << "number " << at << " of " << count;
  }
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
  upload(1000);
  for (const auto& call : emulation::driver().log) EXPECT_FALSE(call.starts_with("synchronize")) << call;
#endif
}

#ifdef TANDEM_EMULATED_CUDA
// Every use of the lost GPU throws an Error, except in a destructor, which must not throw.
TEST(CudaCore, WhatALostGpuHeldCanBeDestroyed) {
  const Device other = Device::cuda(1);
  Array there = ops::ones({4}, DType::f32, other), here = ops::ones({4}, DType::f32, cuda);
  auto graph = record_graph(other, [&] { ops::map(functors::Relu{}, there); });
  graph->replay();
  synchronize(other);
  synchronize(cuda);
  emulation::driver().is_lost = true;
  EXPECT_THROW(here.to_vector<float>(), Error);
  EXPECT_THROW(ops::map(functors::Relu{}, there), Error);
  graph = nullptr;
  there = {};
  here = {};
  emulation::driver().is_lost = false;
  cudaGetLastError();
  EXPECT_EQ(ops::ones({2}, DType::f32, cuda).to_vector<float>(), std::vector<float>(2, 1));
}
#endif

TEST(CudaCore, SortsMoreRowsThanAGridHasBlocks) {
  const Array x = numbers({4300, 2});
  const auto expected = ops::sort(x, 1), found = ops::sort(x.to(cuda), 1);
  expect_same(expected.values, found.values, 0);
  expect_same(expected.indices, found.indices, 0);
}

TEST(CudaCore, MapsDenseAndStrided) {
  const Array a = numbers({33, 65});
  for (const Array& x : {a, a.transpose(0, 1), a.slice(1, 3, 20)}) {
    const Array there = x.to(cuda);
    expect_same(ops::map(functors::Tanh{}, x), ops::map(functors::Tanh{}, there).to(Device{}), 1e-6);
    const Array view = a.to(cuda).transpose(0, 1);
    expect_same(ops::map(functors::Relu{}, a.transpose(0, 1)), ops::map(functors::Relu{}, view).to(Device{}), 0);
  }
}

TEST(CudaCore, ReducesRowsAndColumns) {
  const Array a = numbers({70, 1000});
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{0, 1}}) {
    const Array sum = ops::reduce(Reduction::sum, a, dims);
    // Positive and negative numbers cancel, so the rounding error grows with the square root of their count.
    const double size = std::sqrt(static_cast<double>(a.numel() / sum.numel()));
    expect_same(sum, ops::reduce(Reduction::sum, a.to(cuda), dims), 1e-6, size);
    expect_same(ops::reduce(Reduction::max, a, dims), ops::reduce(Reduction::max, a.to(cuda), dims), 0);
  }
  expect_same(ops::argmax(a, 1), ops::argmax(a.to(cuda), 1), 0);
}

}  // namespace
}  // namespace tandem
