// Tests which method computes a layer (core/cpu/conv/conv_method.h), and that the choice follows the modes.
#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/into.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>
#include <omp.h>
#include <support/annexes.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using cpu::ConvLayer;
using cpu::ConvPass;

const char *const tiles = "tiles of F", *const one_channel = "tiles of F(4, 5) along rows, for one channel",
                  *const depthwise = "sums along rows, for a kernel for each channel",
                  *const direct = "sums of rows, for few outputs", *const onednn = "oneDNN",
                  *const taps = "a product for each tap", *const plain = "product with windows";

TEST(ConvMethod, TheFastOnesAreTriedInThisOrder) {
  SKIP_WITHOUT_ANNEX(cpu::fast_conv_methods);
  std::vector<std::string> names;
  for (const cpu::FastConvMethod& method : cpu::fast_conv_methods.entries()) names.push_back(method.name);
  EXPECT_EQ(names, (std::vector<std::string>{"CookToomConv", "OneChannelConv", "DepthwiseConv", "ConvertedConv",
                                             "DirectConv", "OneDnnConv", "TapConv"}));
}

// Layers whose methods are the same for every instruction set.
TEST(ConvMethod, EachLayerHasItsOwn) {
  SKIP_WITHOUT_ANNEX(cpu::fast_conv_methods);
  const struct {
    Shape x;
    std::int64_t out;
    Window window;
    DType dtype;
    const char *outputs, *input_gradient, *weight_gradient;
  } layers[] = {
      {{4, 1, 28, 28}, 16, {.kernel = 5, .padding = 2}, DType::f32, one_channel, direct, one_channel},
      {{4, 1, 28, 28}, 16, {.kernel = 5, .padding = 2}, DType::bf16, one_channel, direct, one_channel},
      {{4, 16, 14, 14}, 32, {.kernel = 5, .padding = 2}, DType::f32, tiles, tiles, tiles},
      {{2, 64, 28, 28}, 64, {.kernel = 3, .padding = 1}, DType::f16, tiles, tiles, tiles},
      {{2, 64, 28, 28}, 64, {.kernel = 3, .padding = 1}, DType::f64, plain, plain, plain},
      {{2, 64, 14, 14}, 64, {.kernel = 1}, DType::f32, onednn, taps, taps},
      {{2, 64, 15, 15}, 64, {.kernel = 3, .stride = 2, .padding = 1}, DType::f32, onednn, onednn, onednn},
      {{2, 64, 14, 14}, 1, {.kernel = 3, .padding = 1}, DType::f32, direct, onednn, tiles},
      {{2, 17, 15, 17}, 17, {.kernel = 3, .padding = 1, .groups = 17}, DType::f32, depthwise, depthwise, depthwise},
      {{2, 17, 15, 17}, 17, {.kernel = 3, .padding = 1, .groups = 17}, DType::bf16, depthwise, depthwise, depthwise},
      {{2, 96, 21, 21}, 32, {.kernel = 3, .padding = 18, .dilation = 18}, DType::f32, taps, taps, taps},
  };
  for (const auto& [x, out, window, dtype, outputs, input_gradient, weight_gradient] : layers) {
    const auto& [kernel, stride, padding, dilation, groups] = window;
    const auto size = [](std::int64_t in, std::int64_t k, std::int64_t s, std::int64_t p, std::int64_t d) {
      return (in + 2 * p - (k - 1) * d - 1) / s + 1;
    };
    const Shape y{x[0], out, size(x[2], kernel.h, stride.h, padding.h, dilation.h),
                  size(x[3], kernel.w, stride.w, padding.w, dilation.w)};
    const auto method = [&, &x = x, &window = window, dtype = dtype](ConvPass pass) {
      return cpu::choose_conv_method({pass, window, x, y, dtype}).note;
    };
    SCOPED_TRACE(::testing::Message() << x << " to " << out << ", kernel " << kernel << ", " << dtype);
    EXPECT_EQ(method(ConvPass::outputs).rfind(outputs, 0), 0) << method(ConvPass::outputs);
    EXPECT_EQ(method(ConvPass::input_gradient).rfind(input_gradient, 0), 0) << method(ConvPass::input_gradient);
    EXPECT_EQ(method(ConvPass::weight_gradient).rfind(weight_gradient, 0), 0) << method(ConvPass::weight_gradient);
    if (outputs != tiles) {
      EXPECT_EQ(method(ConvPass::both_gradients), "");
    }
  }
}

// Computes everything that a training step computes for a layer.
std::vector<float> step(const Array& x, const Array& weight, const Array& grad_y) {
  const Window window{.kernel = 5, .padding = 2};
  const Array grad_weight = Array::empty(weight.shape());
  std::vector<float> numbers;
  for (const Array& a : {ops::conv2d(x, weight, {}, window), ops::conv2d_grad_input(grad_y, weight, window, x.shape()),
                         ops::conv2d_grad_weight(x, grad_y, window, weight.dim(0), false, DType::f32).weight,
                         ops::conv2d_grads_into(x, grad_y, weight, window, grad_weight, {}, {}), grad_weight}) {
    const auto more = a.contiguous().to_vector<float>();
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  return numbers;
}

// The choice is kept from step to step, until something that it depends on changes.
TEST(ConvMethod, FollowsTheModes) {
  SKIP_WITHOUT_ANNEX(cpu::fast_conv_methods);
  manual_seed(1);
  const Array x = ops::randn({4, 16, 14, 14}).channels_last(), weight = ops::randn({32, 16, 5, 5});
  const Array grad_y = ops::randn({4, 32, 14, 14}).channels_last();
  const auto by_tiles = step(x, weight, grad_y);
  set_exact_convolutions(true);
  const auto exact = step(x, weight, grad_y);
  EXPECT_EQ(step(x, weight, grad_y), exact);
  set_exact_convolutions(false);
  EXPECT_EQ(step(x, weight, grad_y), by_tiles);
  EXPECT_NE(exact, by_tiles);
  set_deterministic(true);
  EXPECT_EQ(step(x, weight, grad_y), by_tiles);
  set_deterministic(false);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(threads + 1);
  const auto outputs = static_cast<std::ptrdiff_t>(grad_y.numel() + x.numel());
  const auto by_more = step(x, weight, grad_y);
  EXPECT_TRUE(std::equal(by_more.begin(), by_more.begin() + outputs, by_tiles.begin()));
  omp_set_num_threads(threads);
  EXPECT_EQ(step(x, weight, grad_y), by_tiles);
}

}  // namespace
}  // namespace tandem
