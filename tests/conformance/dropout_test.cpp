// Dropout drops the same elements on every device.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::expect_same;
using testing::gpu;
using testing::numbers;

TEST(CudaDropout, DropsWhatTheCpuDrops) {
  // Sizes near a block of 64 numbers, and a size that needs more than one thread block.
  for (const std::int64_t size : {1, 15, 16, 63, 64, 65, 1000, 20011}) {
    for (const double p : {0.1, 0.5, 1.0}) {
      for (const DType dtype : testing::floating_dtypes) {
        const Array x = numbers({size}, 1, dtype);
        const std::uint64_t key = 0x9876543210abcdef + static_cast<std::uint64_t>(size);
        expect_same(ops::dropout(x, {key}, p, false), ops::dropout(x.to(gpu), {key}, p, false), 0);
      }
    }
  }
}

TEST(CudaDropout, TheSameSeedGivesTheSameValuesAndGradients) {
  const Array images = numbers({3, 5, 7, 2}), views = numbers({2, 7, 5, 3}).permute({3, 2, 1, 0});
  for (const Array& x : {images, images.channels_last(), views}) {
    const auto trained = [&](Device device, auto drop) {
      manual_seed(5);
      const Tensor in(x.to(device), true);
      const Tensor y = drop(in);
      sum(y * y).backward();
      return std::pair{y.value(), in.grad()};
    };
    for (const auto drop :
         {+[](const Tensor& t) { return dropout(t, 0.3); }, +[](const Tensor& t) { return dropout2d(t, 0.3); }}) {
      const auto here = trained({}, drop), there = trained(gpu, drop);
      expect_same(here.first, there.first, 0);
      expect_same(here.second, there.second, 0);
      const auto values = here.first.to_vector<float>();
      EXPECT_GT(std::count(values.begin(), values.end(), 0.0f), 0);
    }
  }
}

}  // namespace
}  // namespace tandem
