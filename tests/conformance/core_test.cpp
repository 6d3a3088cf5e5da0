// Every raw operation on the GPU gives what it gives on the CPU.
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/compare.h"

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
    // Positive and negative numbers cancel: what rounding leaves grows with the root of how many they are.
    const double size = std::sqrt(static_cast<double>(a.numel() / sum.numel()));
    expect_same(sum, ops::reduce(Reduction::sum, a.to(cuda), dims), 1e-6, size);
    expect_same(ops::reduce(Reduction::max, a, dims), ops::reduce(Reduction::max, a.to(cuda), dims), 0);
  }
  expect_same(ops::argmax(a, 1), ops::argmax(a.to(cuda), 1), 0);
}

}  // namespace
}  // namespace tandem
