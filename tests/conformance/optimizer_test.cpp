// Optimizer steps over many segments.
#include <tandem/core/backend.h>
#include <tandem/core/device.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::expect_same;
using testing::gpu;
using testing::numbers;

// Parameters with gradients and velocities, lying one behind the other, on one device.
struct Parameters {
  Array values, gradients, velocities;
  std::vector<SgdSegment> segments;

  Parameters(const std::vector<std::int64_t>& sizes, Device device) {
    std::int64_t total = 0;
    for (const auto size : sizes) total += size;
    values = numbers({total}, 1).to(device);
    gradients = numbers({total}, 2).to(device);
    velocities = numbers({total}, 3).to(device);
    const auto at = [](const Array& a, std::int64_t offset) { return static_cast<float*>(a.raw()) + offset; };
    std::int64_t offset = 0;
    for (const auto size : sizes) {
      segments.push_back({at(values, offset), at(gradients, offset), at(velocities, offset), size, false});
      offset += size;
    }
  }
  void step(const SgdOptions& options) { backend(values.device()).sgd_step(segments, options); }
};

// Around the size of what a block updates, and odd ones, so that most begin at an odd address.
const std::vector<std::int64_t> sizes = {1, 5, 2047, 2048, 2049, 0, 6000, 31};

TEST(CudaOptimizer, SgdIsTheCpus) {
  const std::vector<SgdOptions> all = {
      {.lr = 0.1},
      {.lr = 0.1, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9},
      {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
  };
  for (const SgdOptions& options : all) {
    SCOPED_TRACE(::testing::Message()
                 << "momentum " << options.momentum << " dampening " << options.dampening << " decay "
                 << options.weight_decay << " nesterov " << options.nesterov);
    Parameters here(sizes, {}), there(sizes, gpu);
    for (int step = 0; step < 3; ++step) {
      for (Parameters* p : {&here, &there}) {
        for (std::size_t i = 0; i < p->segments.size(); ++i) {
          p->segments[i].momentum_is_fresh = step == 0 && i % 2 == 0;
          if (options.momentum == 0) p->segments[i].momentum = nullptr;
        }
        p->step(options);
      }
    }
    expect_same(here.values, there.values, 4 * testing::epsilon_of(DType::f32));
    expect_same(here.velocities, there.velocities, 4 * testing::epsilon_of(DType::f32));
    expect_same(here.gradients, there.gradients, 0);
  }
}

TEST(CudaOptimizer, AVelocityThatIsFreshIsNotRead) {
  const std::vector<std::int64_t> one = {100};
  Parameters here(one, {}), there(one, gpu);
  for (Parameters* p : {&here, &there}) {
    p->velocities.fill(std::nan(""));
    p->segments[0].momentum_is_fresh = true;
    p->step({.lr = 0.1, .momentum = 0.9});
  }
  expect_same(here.values, there.values);
  expect_same(here.gradients, there.velocities, 0);
}

TEST(CudaOptimizer, UpdatesManySegments) {
  const std::vector<std::int64_t> many(200, 3);
  Parameters here(many, {}), there(many, gpu);
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
#endif
  here.step({.lr = 0.1, .momentum = 0.9});
  there.step({.lr = 0.1, .momentum = 0.9});
#ifdef TANDEM_EMULATED_CUDA
  // No copies of addresses and sizes, which a graph could not repeat; a block for each segment.
  EXPECT_EQ(emulation::driver().log,
            (std::vector<std::string>{"launch 84 x 256", "launch 84 x 256", "launch 32 x 256"}));
#endif
  expect_same(here.values, there.values);
  expect_same(here.velocities, there.velocities);
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaOptimizer, NothingToUpdateIsNoKernel) {
  emulation::driver().log.clear();
  backend(gpu).sgd_step({}, {});
  const std::vector<SgdSegment> empty = {{nullptr, nullptr, nullptr, 0, false}};
  backend(gpu).sgd_step(empty, {});
  EXPECT_EQ(emulation::driver().log, std::vector<std::string>{});
}
#endif

}  // namespace
}  // namespace tandem
