// Compares convolutions of images with one channel (core/cpu/conv/one_channel_conv.h) with direct sums in f64.
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "support/arrays.h"

namespace tandem {
namespace {

using cpu::ConvPass;
using cpu::OneChannelConv;
using testing::relative_rms;

struct Layer {
  Shape x;
  std::int64_t out;
  Extent padding;
};

struct Results {
  Array y, grad_weight, grad_bias;
};

// The kernel's results, and the same results in f64. All numbers that the kernel must write are NaN before.
struct Both {
  Results found, expected;
};
Both compute(const Layer& layer, DType dtype = DType::f32) {
  const Window window{.kernel = 5, .padding = layer.padding};
  const Array x = ops::randn(layer.x).to(dtype), weight = ops::randn({layer.out, 1, 5, 5}).to(dtype);
  const Array bias = ops::randn({layer.out}).to(dtype), x64 = x.to(DType::f64);
  Both both;
  both.expected.y = ops::conv2d(x64, weight.to(DType::f64), bias.to(DType::f64), window);
  const Array grad = ops::randn(both.expected.y.shape()).channels_last().to(dtype);
  const auto sums = ops::conv2d_grad_weight(x64, grad.to(DType::f64), window, layer.out, true, DType::f64);
  both.expected.grad_weight = sums.weight;
  both.expected.grad_bias = sums.bias;
  both.found = {Array::empty_channels_last(grad.shape(), dtype), Array::empty(weight.shape()),
                Array::empty({layer.out})};
  for (Array a : {both.found.y, both.found.grad_weight, both.found.grad_bias}) a.fill(NAN);
  OneChannelConv outputs({ConvPass::outputs, window, layer.x, grad.shape(), dtype});
  OneChannelConv gradient({ConvPass::weight_gradient, window, layer.x, grad.shape(), dtype});
  EXPECT_TRUE(outputs.pays() && gradient.pays());
  outputs.run({.x = x, .weight = weight, .bias = bias, .y = both.found.y});
  gradient.run({.x = x, .y = grad, .grad_weight = both.found.grad_weight, .grad_bias = both.found.grad_bias});
  return both;
}

void expect_close(const Layer& layer, double most, double most_of_weight = 3e-6) {
  const auto [found, expected] = compute(layer);
  const auto where = ::testing::Message() << layer.x << " to " << layer.out << ", padding " << layer.padding;
  EXPECT_LT(relative_rms(found.y, expected.y), most) << where;
  EXPECT_LT(relative_rms(found.grad_weight, expected.grad_weight), most_of_weight) << where;
  EXPECT_LT(relative_rms(found.grad_bias, expected.grad_bias), most) << where;
}

// A tile has 4 columns; a part of an image has up to 60 rows and 128 columns.
TEST(ConvOneChannel, IsLikeF64AroundAllEdges) {
  manual_seed(1);
  for (const std::int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 28, 127, 128, 129, 260})
    expect_close({{2, 1, 6, width}, 16, {2, 2}}, 3e-6);
  for (const std::int64_t height : {1, 2, 3, 11, 12, 13, 28, 59, 60, 61, 125})
    expect_close({{2, 1, height, 9}, 16, 2}, 3e-6);
  for (const std::int64_t padding : {0, 1, 3, 4, 6}) expect_close({{1, 1, 10, 11}, 32, {padding, 6 - padding}}, 3e-6);
  for (const std::int64_t out : {16, 32, 48, 128}) expect_close({{3, 1, 14, 14}, out, 2}, 3e-6);
}

TEST(ConvOneChannel, ErrorsAreAsTheHeaderSays) {
  manual_seed(2);
  expect_close({{100, 1, 28, 28}, 16, 2}, 6e-7, 2e-6);
}

TEST(ConvOneChannel, ThreadsShareImages) {
  const int threads = omp_get_max_threads();
  for (const int count : {1, 2, 3}) {
    omp_set_num_threads(count);
    manual_seed(3);
    expect_close({{5, 1, 70, 30}, 32, 2}, 3e-6);
  }
  omp_set_num_threads(threads);
}

TEST(ConvOneChannel, Takes16Bits) {
  manual_seed(4);
  const auto [found, expected] = compute({{4, 1, 28, 28}, 16, 2}, DType::bf16);
  EXPECT_LT(relative_rms(found.y, expected.y), 3e-3);  // each output is rounded to 8 bits
  EXPECT_LT(relative_rms(found.grad_weight, expected.grad_weight), 1e-6);
  EXPECT_LT(relative_rms(found.grad_bias, expected.grad_bias), 1e-6);
}

TEST(ConvOneChannel, ComputesTheLayersThatItIsFor) {
  const Shape x{1, 1, 28, 28}, y{1, 16, 28, 28};
  const Window window{.kernel = 5, .padding = 2};
  const auto pays = [](const Window& w, const Shape& in, const Shape& out, DType dtype = DType::f32) {
    const bool outputs = OneChannelConv({ConvPass::outputs, w, in, out, dtype}).pays();
    EXPECT_EQ(OneChannelConv({ConvPass::weight_gradient, w, in, out, dtype}).pays(), outputs);
    return outputs;
  };
  EXPECT_TRUE(pays(window, x, y));
  EXPECT_FALSE(OneChannelConv({ConvPass::input_gradient, window, x, y, DType::f32}).pays());
  EXPECT_FALSE(pays(window, x, y, DType::f64));
  EXPECT_FALSE(pays(window, x, {1, 6, 28, 28}));
  EXPECT_FALSE(pays(window, {1, 3, 28, 28}, y));
  EXPECT_FALSE(pays({.kernel = 3, .padding = 1}, x, y));
  EXPECT_FALSE(pays({.kernel = 5, .stride = 2, .padding = 2}, x, {1, 16, 14, 14}));
  set_exact_convolutions(true);
  EXPECT_FALSE(pays(window, x, y));
  set_exact_convolutions(false);
}

// Computes the layer as programs do. An infinity and a NaN remain visible.
TEST(ConvOneChannel, ShowsWhatIsNotFinite) {
  manual_seed(5);
  for (const float bad : {INFINITY, NAN}) {
    Array x = ops::randn({1, 1, 28, 28});
    x.data<float>()[14 * 28 + 14] = bad;
    const Array y = ops::conv2d(x, ops::randn({16, 1, 5, 5}), {}, {.kernel = 5, .padding = 2}).contiguous();
    EXPECT_FALSE(std::isfinite(y.data<float>()[14 * 28 + 14]));
    EXPECT_TRUE(std::isfinite(y.data<float>()[2 * 28 + 2]));
  }
}

}  // namespace
}  // namespace tandem
