// The 16-bit copies of all parameters are made together, and are never out of date.
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "conformance/compare.h"
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace tandem {
namespace {

using testing::gpu;
using testing::numbers;

Tensor parameter(const Shape& shape, unsigned seed) { return Tensor(numbers(shape, seed).to(gpu), true); }

// A network with a convolution, and with two layers whose biases have sizes that are not multiples of eight.
struct Network {
  Tensor kernel{numbers({4, 3, 3, 3}, 1).channels_last().to(gpu), true}, kernel_bias = parameter({4}, 2);
  Tensor weight = parameter({10, 4 * 4 * 4}, 3), bias = parameter({10}, 4);
  Tensor last = parameter({3, 10}, 5), last_bias = parameter({3}, 6);
  const Tensor x{numbers({2, 3, 6, 6}, 7).channels_last().to(DType::bf16).to(gpu)};

  std::vector<Tensor> parameters() const { return {kernel, kernel_bias, weight, bias, last, last_bias}; }
  Tensor forward() const {
    return linear(linear(flatten(conv2d(x, kernel, kernel_bias), 1), weight, bias), last, last_bias);
  }
  void change() const {
    for (const Tensor& p : parameters()) {
      Array value = p.value();
      ops::scale_(value, 0.9);
    }
  }
  std::vector<float> result() const { return forward().value().to_vector<float>(); }

  // The result of a thread without earlier steps.
  std::vector<float> expected() const {
    std::vector<float> values;
    std::thread([&] {
      const Autocast autocast(DType::bf16);
      values = result();
    }).join();
    return values;
  }
};

std::int64_t kernels_of(const std::function<void()>& work) {
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
  work();
  return std::ranges::count_if(emulation::driver().log, [](const auto& line) { return line.starts_with("launch"); });
#else
  work();
  return 0;
#endif
}

TEST(LowWeights, AreMadeByOneKernelFromTheSecondStepOn) {
  const Network network;
  network.expected();  // chooses the library's algorithms, in a thread that keeps no copies
  const auto step = [&] {
    const Autocast autocast(DType::bf16);
    network.forward();
  };
  const auto first = kernels_of(step), second = kernels_of(step), third = kernels_of(step);
  EXPECT_EQ(second, third);
  EXPECT_EQ(first - second, first > 0 ? 5 : 0);  // six conversions became one
}

TEST(LowWeights, FollowTheirParameters) {
  const Network network;
  for (int step = 0; step < 3; ++step) {
    const Autocast autocast(DType::bf16);
    EXPECT_EQ(network.result(), network.expected()) << "step " << step;
    network.change();
    EXPECT_EQ(network.result(), network.expected()) << "step " << step << ", within the Autocast";
    network.change();
  }
}

// A replay changes parameters without a call that the host sees.
TEST(LowWeights, FollowWhatAReplayWrites) {
  const Network network;
  const Autocast autocast(DType::bf16);
  network.result();
  Array y;
  // A graph makes new copies, adjacent in its own memory. Their alignment differs, so they need new plans.
  [[maybe_unused]] const testing::PlansWhileRecording plans;
  const auto graph = record_graph(gpu, [&] {
    y = network.forward().value();
    network.change();
  });
  for (int replay = 0; replay < 3; ++replay) {
    const auto before = network.expected();
    EXPECT_EQ(network.result(), before);
    graph->replay();
    EXPECT_EQ(y.to_vector<float>(), before) << "replay " << replay;
    EXPECT_NE(network.expected(), before);
  }
  EXPECT_EQ(network.result(), network.expected());
}

TEST(LowWeights, OfTwoNetworksInTurn) {
  const Network one;
  Network other;
  other.kernel = parameter({4, 3, 3, 3}, 11);
  for (int step = 0; step < 3; ++step)
    for (const Network* network : {&one, &std::as_const(other)}) {
      const auto expected = network->expected();
      const Autocast autocast(DType::bf16);
      EXPECT_EQ(network->result(), expected);
      network->change();
    }
}

TEST(LowWeights, KeepNoNetworkAlive) {
  const auto step = [] {
    const Network network;  // its parameters may have the addresses of freed parameters
    const auto expected = network.expected();
    const Autocast autocast(DType::bf16);
    EXPECT_EQ(network.result(), expected);
  };
  step();
  const auto before = memory_stats(gpu).bytes_in_use;
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(memory_stats(gpu).bytes_in_use, before);
}

TEST(LowWeights, HaveGradientsOfTheParametersOwnDtype) {
  const Network network;
  for (int step = 0; step < 2; ++step) {
    const Autocast autocast(DType::bf16);
    sum(network.forward()).backward();
    for (const Tensor& p : network.parameters()) {
      EXPECT_EQ(p.grad().dtype(), DType::f32);
      EXPECT_EQ(p.grad().shape(), p.shape());
    }
  }
}

}  // namespace
}  // namespace tandem
