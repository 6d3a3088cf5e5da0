// Convolutions on the CPU by oneDNN, directly, and as products for each tap, compared with the plain method in f64.
// conv2d_tiles_test.cpp tests tiles.
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/depthwise_conv.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/arrays.h"

namespace tandem {
namespace {

using cpu::ConvPass;

struct Case {
  Shape x;
  std::int64_t out;
  Window window;
};

void expect_near(const Array& found, const Array& expected, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto f = found.to_vector<double>(), e = expected.to_vector<double>();
  double squares = 0, worst = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    ASSERT_TRUE(std::isfinite(f[i])) << what << ", element " << i;
    squares += e[i] * e[i];
    worst = std::max(worst, std::abs(f[i] - e[i]));
  }
  EXPECT_LE(worst, 2e-5 * std::sqrt(squares / static_cast<double>(e.size()))) << what;
}

void expect_like_f64(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.x << " to " << c.out << " channels, padding " << c.window.padding
                                    << ", dilation " << c.window.dilation);
  manual_seed(7);
  const Array x = ops::randn(c.x).channels_last(), bias = ops::randn({c.out});
  const Array weight = ops::randn({c.out, c.x[1], c.window.kernel.h, c.window.kernel.w});
  const Array y = ops::conv2d(x, weight, bias, c.window);
  const Array grad_y = ops::randn(y.shape()).channels_last();

  const auto exact = [](const Array& a) { return a.to(DType::f64); };
  expect_near(y, ops::conv2d(exact(x), exact(weight), exact(bias), c.window), "result");
  expect_near(ops::conv2d(x, weight, {}, c.window), ops::conv2d(exact(x), exact(weight), {}, c.window), "without bias");
  expect_near(ops::conv2d_grad_input(grad_y, weight, c.window, c.x),
              ops::conv2d_grad_input(exact(grad_y), exact(weight), c.window, c.x), "gradient of the input");
  const auto found = ops::conv2d_grad_weight(x, grad_y, c.window, c.out, true, DType::f32);
  const auto expected = ops::conv2d_grad_weight(exact(x), exact(grad_y), c.window, c.out, true, DType::f64);
  expect_near(found.weight, expected.weight, "gradient of the weight");
  expect_near(found.bias, expected.bias, "gradient of the bias");
}

Shape output_of(const Case& c) {
  const Array weight = ops::zeros({c.out, c.x[1], c.window.kernel.h, c.window.kernel.w});
  return ops::conv2d(ops::zeros(c.x), weight, {}, c.window).shape();
}

TEST(Conv2d, DirectlyForFewOutputs) {
  const Window windows[] = {{.kernel = 3, .padding = 1},
                            {.kernel = 3},
                            {.kernel = {5, 3}, .stride = 2, .padding = {2, 1}},
                            {.kernel = {1, 7}, .stride = {1, 3}, .padding = {0, 3}},
                            {.kernel = {2, 3}, .padding = {4, 5}},  // some outputs see only padding
                            {.kernel = 3, .padding = {2, 1}, .dilation = {2, 1}}};
  for (const Window& window : windows) {
    for (const std::int64_t in : {8, 11, 16, 24}) {
      for (const std::int64_t out : {1, 2, 3, 4, 7, 8}) {
        // Rows from 3 pixels to several tiles. Some of the tiles overlap.
        const Case c{{2, in, 9, 3 + (5 * in + 3 * out) % 40}, out, window};
        // With only AVX2, oneDNN is faster for the smallest of these layers.
        const bool pays = in * window.kernel.h * window.kernel.w >= 16 * out;
        if (pays || onednn::has_avx512()) {
          EXPECT_TRUE(cpu::DirectConv({ConvPass::outputs, window, c.x, output_of(c), DType::f32}).pays()) << c.x;
        }
        expect_like_f64(c);
      }
    }
  }
  expect_like_f64({{2, 64, 10, 31}, 16, {.kernel = 3, .padding = 1}});
  for (const std::int64_t out : {1, 2, 3, 4, 6, 8}) expect_like_f64({{3, 19, 25, 31}, out, {.kernel = 1}});
  expect_like_f64({{1, 64, 8, 60}, 12, {.kernel = 3, .stride = 2}});
}

TEST(Conv2d, PixelByPixelForFewChannels) {
  for (const std::int64_t in : {1, 2, 3, 4, 5, 8, 16})
    for (const std::int64_t out : {1, 2, 3, 4})
      for (const Window& window :
           {Window{.kernel = 1}, Window{.kernel = 1, .stride = 2}, Window{.kernel = 1, .padding = 1}})
        expect_like_f64({{2, in, 7, 11}, out, window});
  expect_like_f64({{3, 2, 64, 70}, 3, {.kernel = 1}});  // several threads
}

// Sums are in f32: only inputs and results are rounded to bf16.
TEST(Conv2d, DirectlyForFewOutputsOfBf16) {
  manual_seed(2);
  const auto bf16 = [](const Array& a) { return a.channels_last().to(DType::bf16); };
  const auto exact = [](const Array& a) { return a.to(DType::f64); };
  // This layer does not use most of the pixels, so converting them would be wasted.
  EXPECT_FALSE(
      cpu::DirectConv({ConvPass::outputs, {.kernel = 1, .stride = 2}, {2, 96, 11, 19}, {2, 1, 6, 10}, DType::bf16})
          .pays());
  for (const std::int64_t out : {1, 3}) {
    const Window window{.kernel = 5, .padding = 2};
    const Array x = bf16(ops::randn({2, 24, 11, 19})), weight = ops::randn({out, 24, 5, 5}), bias = ops::randn({out});
    ASSERT_TRUE(cpu::DirectConv({ConvPass::outputs, window, x.shape(), {2, out, 11, 19}, DType::bf16}).pays());
    const double error = testing::relative_rms(ops::conv2d(x, weight, bias, window),
                                               ops::conv2d(exact(x), exact(weight), exact(bias), window));
    EXPECT_LT(error, 2e-3);
    const Array grad_y = bf16(ops::randn({2, 24, 11, 19})), turned = ops::randn({24, out, 5, 5});
    const Shape seen{2, out, 11, 19};
    ASSERT_TRUE(cpu::DirectConv({ConvPass::input_gradient, window, seen, grad_y.shape(), DType::bf16}).pays());
    EXPECT_LT(testing::relative_rms(ops::conv2d_grad_input(grad_y, turned, window, seen),
                                    ops::conv2d_grad_input(exact(grad_y), exact(turned), window, seen)),
              2e-3);
  }
}

// Layers whose gradients oneDNN 2.6 computes incorrectly in bf16.
TEST(Conv2d, WeightGradientsOfBf16) {
  manual_seed(5);
  const Case cases[] = {
      {{3, 3, 12, 48}, 3, {.kernel = 3, .padding = 2, .dilation = 2, .groups = 3}},
      {{2, 63, 39, 56}, 63, {.kernel = 1, .dilation = {2, 4}, .groups = 63}},
      {{3, 60, 20, 39}, 18, {.kernel = {5, 3}, .dilation = {4, 3}, .groups = 6}},
      {{3, 28, 14, 48}, 2, {.kernel = {7, 8}, .dilation = 2}},
      {{2, 74, 8, 1}, 74, {.kernel = {2, 5}, .stride = {1, 2}, .padding = {1, 2}, .groups = 74}},
      {{1, 40, 5, 2}, 40, {.kernel = {6, 5}, .stride = {2, 4}, .padding = {3, 2}, .groups = 40}},
      {{3, 44, 7, 1}, 4, {.kernel = 5, .stride = {1, 3}, .padding = {1, 3}, .groups = 4}},
  };
  for (const Case& c : cases) {
    const Array x = ops::randn(c.x).channels_last().to(DType::bf16);
    const Array weight = ops::randn({c.out, c.x[1] / c.window.groups, c.window.kernel.h, c.window.kernel.w});
    const Shape y = ops::conv2d(x, weight, {}, c.window).shape();
    const Array grad_y = ops::randn(y).channels_last().to(DType::bf16);
    const auto sums = [&](DType dtype) {
      return ops::conv2d_grad_weight(x.to(dtype), grad_y.to(dtype), c.window, c.out, false,
                                     dtype == DType::bf16 ? DType::f32 : dtype)
          .weight;
    };
    EXPECT_LT(testing::relative_rms(sums(DType::bf16), sums(DType::f64)), 3e-3)
        << c.x << ", kernel " << c.window.kernel;
  }
}

// Numbers of channels near the length of a vector, so that the channels of its lanes repeat after one or several
// vectors. Rows have from one pixel to many vectors, and padding may be larger than the kernel.
TEST(Conv2d, AlongRowsForAKernelForEachChannel) {
  manual_seed(4);
  const auto exact = [](const Array& a) { return a.to(DType::f64); };
  for (const std::int64_t channels : {2, 3, 8, 15, 16, 17, 24, 48, 70})
    for (const Extent kernel : {Extent(3), Extent(7), Extent(2, 5), Extent(5, 1)})
      for (const Extent padding : {Extent(0), Extent(kernel.h / 2, kernel.w / 2), Extent(kernel.h, kernel.w + 1)})
        for (const DType dtype : {DType::f32, DType::bf16}) {
          const Window window{.kernel = kernel, .padding = padding, .groups = channels};
          const Shape shape{2, channels, kernel.h + channels % 11, kernel.w + (3 * channels) % 29};
          const Array x = ops::randn(shape).channels_last().to(dtype), bias = ops::randn({channels});
          const Array weight = ops::randn({channels, 1, kernel.h, kernel.w});
          const Array y = ops::conv2d(exact(x), exact(weight), exact(bias), window);
          const Array grad_y = ops::randn(y.shape()).channels_last().to(dtype);
          const Array found = Array::empty_channels_last(y.shape(), dtype);
          const Array grad_x = Array::empty_channels_last(shape, dtype);
          const auto conv = [&](ConvPass pass) { return cpu::DepthwiseConv({pass, window, shape, y.shape(), dtype}); };
          SCOPED_TRACE(::testing::Message() << shape << ", kernel " << kernel << ", padding " << padding);
          const double most = dtype == DType::f32 ? 1e-6 : 2e-3;
          conv(ConvPass::outputs).run({.x = x, .weight = weight, .bias = bias, .y = found});
          EXPECT_LT(testing::relative_rms(found, y), most);
          const Array grad_weight = Array::empty(weight.shape());
          conv(ConvPass::weight_gradient).run({.x = x, .y = grad_y, .grad_weight = grad_weight});
          const auto sums = ops::conv2d_grad_weight(exact(x), exact(grad_y), window, channels, false, DType::f64);
          EXPECT_LT(testing::relative_rms(grad_weight, sums.weight), 1e-6);
          if (padding.h >= kernel.h) continue;
          conv(ConvPass::input_gradient).run({.weight = weight, .y = grad_y, .grad_x = grad_x});
          const Array expected = ops::conv2d_grad_input(exact(grad_y), exact(weight), window, shape);
          EXPECT_LT(testing::relative_rms(grad_x, expected), most);
        }
}

// An Inf or NaN affects only the outputs that see its pixel.
TEST(Conv2d, DirectSumsSpreadNothing) {
  const Window window{.kernel = 3, .padding = 1};
  for (const std::int64_t out : {1, 2, 3, 8}) {
    for (const float odd : {INFINITY, NAN}) {
      const Array x = ops::ones({1, 11, 9, 33}).channels_last();
      x.narrow(2, 4, 1).narrow(3, 20, 1).fill(odd);
      const auto y = ops::conv2d(x, ops::ones({out, 11, 3, 3}), {}, window).contiguous().to_vector<float>();
      for (std::int64_t i = 0; i < out * 9 * 33; ++i) {
        const std::int64_t h = i / 33 % 9, w = i % 33;
        const bool sees = std::abs(h - 4) <= 1 && std::abs(w - 20) <= 1;
        const float found = y[static_cast<std::size_t>(i)];
        EXPECT_EQ(sees, !std::isfinite(found)) << h << ' ' << w;
        EXPECT_EQ(sees && std::isnan(odd), std::isnan(found)) << h << ' ' << w;
      }
    }
  }
}

// Some kernels read bf16 numbers in pairs. The second number of a pixel's last pair may belong to the next pixel.
TEST(Conv2d, ExactSumsOfBf16SpreadNothing) {
  set_exact_convolutions(true);
  for (const std::int64_t width : {1, 2})
    for (const std::int64_t inputs : {3, 5, 11, 17, 33}) {
      const Array x = ops::ones({1, inputs, 4, 33}).channels_last().to(DType::bf16);
      x.narrow(2, 2, 1).narrow(3, 20, 1).fill(INFINITY);
      const Window window{.kernel = {1, width}};
      const Array y = ops::conv2d(x, ops::ones({16, inputs, 1, width}).to(DType::bf16), {}, window);
      const auto found = y.to(DType::f32).narrow(1, 0, 1).contiguous().to_vector<float>();
      for (std::int64_t i = 0; i < y.dim(2) * y.dim(3); ++i) {
        const bool sees = i / y.dim(3) == 2 && i % y.dim(3) > 20 - width && i % y.dim(3) <= 20;
        EXPECT_EQ(found[static_cast<std::size_t>(i)], sees ? INFINITY : static_cast<float>(inputs * width))
            << inputs << " inputs, pixel " << i;
      }
    }
  set_exact_convolutions(false);
}

// Only the last position of the kernel sees the last pixel of an image.
TEST(Conv2d, WeightGradientsOfEachChannelSpreadNothing) {
  const Array x = ops::ones({1, 3, 5, 9}).channels_last();
  x.narrow(1, 1, 1).narrow(2, 4, 1).narrow(3, 8, 1).fill(INFINITY);
  const Window window{.kernel = 3, .groups = 3};
  const Array grad_y = ops::ones({1, 3, 3, 7}).channels_last();
  ASSERT_TRUE(cpu::DepthwiseConv({ConvPass::weight_gradient, window, x.shape(), grad_y.shape(), DType::f32}).pays());
  const auto found = ops::conv2d_grad_weight(x, grad_y, window, 3, false, DType::f32).weight.to_vector<float>();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], i == 17 ? INFINITY : 21.f) << i;
}

TEST(Conv2d, ByTaps) {
  const Case cases[] = {
      {{2, 24, 9, 11}, 20, {.kernel = 3, .padding = 8, .dilation = 8}},
      {{2, 96, 21, 21}, 96, {.kernel = 3, .padding = 12, .dilation = 12}},  // fewer products than by tiles
      {{16, 16, 21, 9}, 65, {.kernel = {3, 5}, .padding = {14, 6}, .dilation = {14, 3}}},
      {{2, 200, 7, 12}, 33, {.kernel = {7, 3}, .stride = {1, 2}, .padding = {5, 9}, .dilation = {2, 9}}},
      {{2, 24, 11, 11}, 20, {.kernel = 3, .padding = 12, .dilation = 12}},       // only one tap sees pixels
      {{3, 26, 2, 13}, 11, {.kernel = {7, 1}, .stride = 3, .padding = {5, 0}}},  // every third tap sees pixels
      {{2, 24, 4, 4}, 20, {.kernel = 2, .padding = 5, .dilation = 10}},          // all taps see only padding
  };
  for (const Case& c : cases) {
    const Shape y = output_of(c);
    for (const ConvPass pass : {ConvPass::outputs, ConvPass::input_gradient, ConvPass::weight_gradient}) {
      const cpu::ConvLayer layer(pass, c.window, c.x, y, DType::f32);
      EXPECT_TRUE(cpu::TapConv(layer).beats_onednn()) << c.x;
      EXPECT_TRUE(pass == ConvPass::outputs || !cpu::CookToomConv(layer).pays()) << c.x;
    }
    expect_like_f64(c);
  }
}

// Returns the time of all passes in seconds, the fastest of three calls.
double seconds_of(const Shape& x_shape, const Shape& weight_shape, std::int64_t groups) {
  const Array x = ops::rand(x_shape).channels_last(), weight = ops::rand(weight_shape);
  const Window window{Extent(weight_shape[2], weight_shape[3]), 1, weight_shape[2] / 2, 1, groups};
  double best = 1e9;
  for (int call = 0; call < 4; ++call) {
    const auto start = std::chrono::steady_clock::now();
    const Array y = ops::conv2d(x, weight, std::nullopt, window);
    ops::conv2d_grad_input(y, weight, window, x.shape());
    ops::conv2d_grad_weight(x, y, window, weight.dim(0), false, DType::f32);
    const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (call > 0) best = std::min(best, time);
  }
  return best;
}

// There are outputs only because of the padding, and each of them is the bias.
TEST(Conv2d, OfAnEmptyImageHasTheGradientOfTheBias) {
  const Window window{.kernel = 3, .padding = 2};
  const Array bias = ops::ones({5});
  for (const Shape& shape : {Shape{2, 3, 0, 4}, Shape{2, 3, 4, 0}, Shape{0, 3, 4, 4}}) {
    const Array x = ops::zeros(shape), y = ops::conv2d(x, ops::ones({5, shape[1], 3, 3}), bias, window);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(y.numel()), 1)) << shape;
    const auto grad = ops::conv2d_grad_weight(x, y, window, 5, true, DType::f32);
    EXPECT_EQ(grad.bias.to_vector<float>(), std::vector<float>(5, static_cast<float>(y.numel() / 5))) << shape;
    for (const float g : grad.weight.to_vector<float>()) EXPECT_EQ(g, 0) << shape;
  }
}

// For some layers, oneDNN has only its reference loops in the layout that suits other layers best. These loops took 30
// to 150 times as long as a layer with more to compute.
TEST(Conv2d, NoLayerOfFewChannelsIsSlow) {
  const double all = seconds_of({2, 16, 56, 56}, {16, 16, 5, 5}, 1);
  EXPECT_LT(seconds_of({2, 16, 56, 56}, {1, 16, 5, 5}, 1), 5 * all) << "16 -> 1";
  EXPECT_LT(seconds_of({2, 1, 56, 56}, {16, 1, 5, 5}, 1), 5 * all) << "1 -> 16";
  EXPECT_LT(seconds_of({2, 16, 56, 56}, {16, 1, 5, 5}, 16), 5 * all) << "depthwise";
}

}  // namespace
}  // namespace tandem
