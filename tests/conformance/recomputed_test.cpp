// Tests outputs of batch norms that the graph does not hold between forward and backward, but recomputes.
#include <tandem/autograd/functions.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/device/memory_stats.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::gpu;
using testing::numbers;

const Shape image{2, 32, 128, 128};  // large enough that outputs are recomputed

struct Layer {
  Tensor kernel, weight, bias;
  explicit Layer(unsigned seed)
      : kernel(numbers({32, 32, 1, 1}, seed).channels_last().to(gpu), true),
        weight(numbers({32}, seed + 1).to(gpu), true),
        bias(numbers({32}, seed + 2).to(gpu), true) {}
  Tensor operator()(const Tensor& x, const Tensor& shortcut = {}) const {
    BatchNormState state;
    return batch_norm(conv2d(x, kernel), weight, bias, state, {.relu = true}, shortcut);
  }
};

// A function between two layers, which changes no numbers.
using Between = std::function<Tensor(const Tensor&)>;

Tensor same(const Tensor& x) { return x; }
// A view. An operation that saves a view holds its memory, so nothing is recomputed.
Tensor held(const Tensor& x) { return reshape(x, x.shape()); }

// One layer, followed by two residual blocks of two layers each.
class Network {
 public:
  Tensor forward(const Between& between) const {
    Tensor x = layers_[0](x_);
    for (std::size_t i = 1; i + 1 < layers_.size(); i += 2)
      x = between(layers_[i + 1](between(layers_[i](between(x))), x));
    return x;
  }
  std::vector<std::vector<float>> gradients(const Tensor& loss, bool retain_graph = false) const {
    for (const Layer& layer : layers_)
      for (Tensor p : {layer.kernel, layer.weight, layer.bias}) p.set_grad({});
    loss.backward({.retain_graph = retain_graph});
    std::vector<std::vector<float>> all;
    for (const Layer& layer : layers_)
      for (const Tensor& p : {layer.kernel, layer.weight, layer.bias}) all.push_back(p.grad().to_vector<float>());
    return all;
  }

 private:
  std::vector<Layer> layers_{Layer(1), Layer(4), Layer(7), Layer(10), Layer(13)};
  const Tensor x_{numbers(image, 99).channels_last().to(gpu)};
};

// Uses deterministic algorithms, whose results are the same each time.
class CudaRecomputed : public ::testing::Test {
 protected:
  CudaRecomputed() { set_deterministic(true); }
  ~CudaRecomputed() override { set_deterministic(false); }
};

std::uint64_t bytes_in_use() { return memory_stats(gpu).bytes_in_use; }

TEST_F(CudaRecomputed, GradientsAreThoseOfAGraphThatHoldsTheOutputs) {
  const Network network;
  const auto expected = network.gradients(mean(network.forward(held)));
  const Tensor loss = mean(network.forward(same));
  const auto found = network.gradients(loss, true);
  EXPECT_EQ(network.gradients(loss), found);
  // A view is an operation, so the two graphs add the gradients of a shortcut in different orders.
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float most = std::abs(*std::ranges::max_element(expected[i], {}, [](float g) { return std::abs(g); }));
    for (std::size_t j = 0; j < found[i].size(); ++j) ASSERT_NEAR(found[i][j], expected[i][j], 1e-4 * most) << i;
  }
}

TEST_F(CudaRecomputed, TheGraphHoldsHalfOfTheOutputs) {
  const Network network;
  const std::uint64_t one = numbers(image).bytes(), before = bytes_in_use();
  Tensor loss = mean(network.forward(held));
  const std::uint64_t all = bytes_in_use() - before;
  EXPECT_GE(all, 9 * one);  // five of convolutions, and four of batch norms that are followed by a convolution
  loss = mean(network.forward(same));
  // The graph holds the outputs of the convolutions, and the output of the first block, which is the second block's
  // shortcut.
  EXPECT_LT(bytes_in_use() - before, 6.5 * one);
}

TEST_F(CudaRecomputed, AnOutputThatIsChangedInPlaceIsHeld) {
  Layer first(1), second(4);
  const Tensor x(numbers(image).channels_last().to(gpu));
  mean(second(first(x) * 2.0)).backward();
  const auto expected = first.kernel.grad().to_vector<float>();
  first.kernel.set_grad({});
  mean(second(mul_(first(x), 2))).backward();
  EXPECT_EQ(first.kernel.grad().to_vector<float>(), expected);
}

TEST_F(CudaRecomputed, AnInputThatWasChangedInPlaceIsNamed) {
  const Layer first(1), second(4);
  BatchNormState state;
  const Tensor x = conv2d(Tensor(numbers(image).channels_last().to(gpu)), first.kernel);
  const Tensor loss = mean(second(batch_norm(x, first.weight, first.bias, state, {.relu = true})));
  mul_(x, 2);
  for (int i = 0; i < 2; ++i) {
    try {
      loss.backward({.retain_graph = true});
      FAIL() << "nothing was noticed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("changed in place by mul_"), std::string::npos) << error.what();
    }
  }
}

TEST_F(CudaRecomputed, AWeightThatWasChangedGivesNoGradients) {
  const Layer first(1), second(4);
  const Tensor loss = mean(second(first(Tensor(numbers(image).channels_last().to(gpu)))));
  {
    const NoGrad no_grad;
    mul_(first.weight, 2);
  }
  EXPECT_THROW(loss.backward(), Error);
  EXPECT_FALSE(second.kernel.grad().defined());
}

TEST_F(CudaRecomputed, NothingIsHeldWhenTheGraphIsFreed) {
  const Layer first(1), second(4);
  const Tensor x(numbers(image).channels_last().to(gpu));
  mean(second(first(x))).backward();
  const std::uint64_t one = numbers(image).bytes(), before = bytes_in_use();
  const Tensor y = first(x);
  mean(second(y)).backward();
  EXPECT_LT(bytes_in_use() - before, 1.5 * one);
  const Tensor z = first(x);
  mean(z).backward();
  EXPECT_LT(bytes_in_use() - before, 2.5 * one);
}

TEST_F(CudaRecomputed, FrozenWeightsNeedNoOutput) {
  Layer first(1), second(4);
  second.kernel.set_requires_grad(false);
  const Tensor loss = mean(second(first(Tensor(numbers(image).channels_last().to(gpu)))));
  loss.backward({.retain_graph = true});
  const std::uint64_t one = numbers(image).bytes(), before = bytes_in_use();
  loss.backward({.retain_graph = true});
  EXPECT_LT(bytes_in_use(), before + one / 2);
}

}  // namespace
}  // namespace tandem
