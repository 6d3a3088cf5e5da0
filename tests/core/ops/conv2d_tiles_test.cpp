// Compares convolutions by tiles (core/cpu/conv/cook_toom_conv.h) with direct sums in f64.
#include <tandem/core/base/scope.h>
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile/profile.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <regex>
#include <string>

#include "support/arrays.h"
#include "support/temporary_folder.h"
#include "support/trace.h"

namespace tandem {
namespace {

using cpu::ConvPass;
using cpu::CookToomChoice;
using cpu::CookToomConv;
using cpu::CookToomScheme;
using cpu::scheme;
using testing::relative_rms;

struct Case {
  Shape x;
  std::int64_t out;
  Window window;
};

std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << c.x << " to " << c.out << " channels, kernel " << c.window.kernel << ", padding " << c.window.padding
            << ", dilation " << c.window.dilation;
}

// Returns the largest error of forward, of each gradient alone, and of both gradients together. The last error is
// divided by 1.3, because it may be larger.
double error_of_tiles(const Case& c, const CookToomChoice& tiles, bool activations) {
  const Array drawn = ops::randn(c.x).channels_last();
  const Array x = activations ? ops::map(functors::Relu{}, drawn) : drawn;
  const Array weight = ops::randn({c.out, c.x[1], c.window.kernel.h, c.window.kernel.w}), bias = ops::randn({c.out});
  const Array x64 = x.to(DType::f64), weight64 = weight.to(DType::f64);
  const Array y = ops::conv2d(x64, weight64, bias.to(DType::f64), c.window);
  const Array grad_y = ops::randn(y.shape()).channels_last(), grad64 = grad_y.to(DType::f64);

  const auto conv = [&](ConvPass pass) { return CookToomConv({pass, c.window, c.x, y.shape(), DType::f32}, tiles); };
  const auto both = [&](bool add) {
    cpu::ConvLayer layer(ConvPass::both_gradients, c.window, c.x, y.shape(), DType::f32);
    layer.add = add;
    return CookToomConv(layer, tiles);
  };
  const Array by_tiles = Array::empty_channels_last(y.shape()), grad_x = Array::empty_channels_last(c.x);
  const Array grad_weight = Array::empty(weight.shape());
  const Array also_x = Array::empty_channels_last(c.x), also_weight = Array::empty(weight.shape());
  for (Array a : {by_tiles, grad_x, grad_weight, also_x, also_weight}) a.fill(NAN);
  conv(ConvPass::outputs).run({.x = x, .weight = weight, .bias = bias, .y = by_tiles});
  conv(ConvPass::input_gradient).run({.weight = weight, .y = grad_y, .grad_x = grad_x});
  conv(ConvPass::weight_gradient).run({.x = x, .y = grad_y, .grad_weight = grad_weight});
  both(false).run({.x = x, .weight = weight, .y = grad_y, .grad_x = also_x, .grad_weight = also_weight});
  EXPECT_EQ(also_x.contiguous().to_vector<float>(), grad_x.contiguous().to_vector<float>()) << c;
  const Array more = ops::randn(c.x).channels_last(), sum = ops::zip(functors::Add{}, more, grad_x);
  both(true).run({.x = x, .weight = weight, .y = grad_y, .grad_x = more, .grad_weight = also_weight});
  EXPECT_LT(relative_rms(more, sum), 1e-7) << c;
  const Array weight_sums = ops::conv2d_grad_weight(x64, grad64, c.window, c.out, false, DType::f64).weight;
  return std::max({relative_rms(by_tiles, y),
                   relative_rms(grad_x, ops::conv2d_grad_input(grad64, weight64, c.window, c.x)),
                   relative_rms(grad_weight, weight_sums), relative_rms(also_weight, weight_sums) / 1.3});
}

CookToomChoice square(const CookToomScheme& s) { return {&s, &s, 0}; }

TEST(ConvTiles, ErrorsAreAsTheHeaderSays) {
  struct {
    const CookToomScheme& scheme;
    double most;
  } cases[] = {{scheme<2, 3>, 4e-7}, {scheme<4, 3>, 1e-6}, {scheme<6, 3>, 3e-6},
               {scheme<7, 3>, 7e-6}, {scheme<2, 5>, 1e-6}, {scheme<4, 5>, 3e-6},
               {scheme<5, 5>, 6e-6}, {scheme<2, 7>, 4e-6}, {scheme<3, 7>, 7e-6}};
  manual_seed(3);
  for (const auto& [s, most] : cases)
    for (const bool activations : {false, true}) {
      const Case c{{6, 32, 20, 23}, 32, {.kernel = s.r, .padding = s.r / 2}};
      const double found = error_of_tiles(c, square(s), activations);
      EXPECT_LT(found, most) << "F(" << s.m << ", " << s.r << ')';
      EXPECT_GT(found, most / 4) << "F(" << s.m << ", " << s.r << "): the header promises too little";
    }
}

TEST(ConvTiles, HaveSmallErrorsWhereSumsAreLong) {
  manual_seed(8);
  for (const std::int64_t kernel : {3, 5, 7})
    for (const std::int64_t size : {7, 12, 14, 28, 100})
      for (const std::int64_t channels : {32, 33, 70, 128, 257}) {
        const Case c{{1, channels, 14, 14}, channels, {.kernel = kernel, .padding = kernel / 2}};
        const CookToomChoice tiles = cpu::choose_cook_toom(kernel, 1, size, channels, channels);
        if (kernel == 7 && channels > 100) {
          EXPECT_FALSE(tiles.rows) << c;
          continue;
        }
        EXPECT_LT(error_of_tiles(c, tiles, false), 6e-6)
            << c << ", tiles of " << tiles.rows->m << " by " << tiles.columns->m;
      }
}

const CookToomScheme& drawn_scheme(std::mt19937& draw, std::int64_t kernel) {
  static const CookToomScheme* const of_3[] = {&scheme<2, 3>, &scheme<4, 3>, &scheme<6, 3>, &scheme<7, 3>};
  static const CookToomScheme* const of_5[] = {&scheme<2, 5>, &scheme<4, 5>, &scheme<5, 5>};
  static const CookToomScheme* const of_7[] = {&scheme<2, 7>, &scheme<3, 7>};
  if (kernel == 1) return scheme<1, 1>;
  if (kernel == 7) return *of_7[draw() % 2];
  return kernel == 3 ? *of_3[draw() % 4] : *of_5[draw() % 3];
}

// Tests a random layer. Its sizes are near the edges of tiles, its channels are near the length of vectors, and it has
// any padding.
void expect_like_f64(unsigned seed) {
  std::mt19937 draw(seed);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(end));
  };
  const auto pick = [&](std::initializer_list<std::int64_t> from) { return from.begin()[draw() % from.size()]; };
  Case c{{1 + below(3), pick({1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 33, 48, 70}), 0, 0},
         pick({1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 40, 64, 65}),
         {}};
  const Extent kernel(pick({1, 3, 3, 5, 5, 7}), pick({1, 3, 3, 5, 5, 7}));
  const Extent dilation(pick({1, 1, 1, 2, 3}), pick({1, 1, 1, 2, 5}));
  const Extent reach((kernel.h - 1) * dilation.h, (kernel.w - 1) * dilation.w);
  const Extent padding(below(reach.h + 2), below(reach.w + 2));
  c.window = {.kernel = kernel, .padding = padding, .dilation = dilation};
  c.x[2] = std::max<std::int64_t>(reach.h + 1 - 2 * padding.h, 1) + below(20);
  c.x[3] = std::max<std::int64_t>(reach.w + 1 - 2 * padding.w, 1) + below(40);
  const CookToomChoice tiles{&drawn_scheme(draw, kernel.h), &drawn_scheme(draw, kernel.w), 0};
  manual_seed(seed);
  const double found = error_of_tiles(c, tiles, draw() % 2);
  // Sums of few numbers can cancel out, and errors are then large compared with them.
  EXPECT_LT(found, 5e-5) << "seed " << seed << ": " << c << ", tiles of " << tiles.rows->m << " x " << tiles.columns->m;
}

// TANDEM_CONV_SEEDS=FIRST-LAST tries layers that CI does not try.
TEST(ConvTiles, AnyLayerIsLikeF64) {
  unsigned first = 0, last = 150;
  if (const char* seeds = std::getenv("TANDEM_CONV_SEEDS")) {
    ASSERT_EQ(std::sscanf(seeds, "%u-%u", &first, &last), 2);
  }
  for (unsigned seed = first; seed <= last; ++seed) expect_like_f64(seed);
}

// A block may have several images, and an image several blocks.
TEST(ConvTiles, ManyAndLargeImages) {
  manual_seed(5);
  EXPECT_LT(error_of_tiles({{100, 16, 14, 14}, 32, {.kernel = 5, .padding = 2}}, square(scheme<5, 5>), true), 8e-6);
  EXPECT_LT(error_of_tiles({{2, 5, 90, 131}, 6, {.kernel = 3, .padding = 1}}, square(scheme<4, 3>), true), 2e-6);
  EXPECT_LT(
      error_of_tiles({{2, 160, 12, 12}, 200, {.kernel = 3, .padding = 2, .dilation = 2}}, square(scheme<4, 3>), true),
      2e-6);
}

// A part of a batch must use the same tiles as the whole batch, and must have the same bits in each image.
TEST(ConvTiles, DoNotDependOnTheBatch) {
  manual_seed(9);
  const Window window{.kernel = 3, .padding = 1};
  const Array x = ops::randn({10, 32, 28, 28}).channels_last(), weight = ops::randn({32, 32, 3, 3});
  for (const std::int64_t images : {1, 100}) {
    const Shape shape{images, 32, 28, 28};
    ASSERT_TRUE(CookToomConv({ConvPass::outputs, window, shape, shape, DType::f32}).pays());
  }
  const Array whole = ops::conv2d(x, weight, {}, window), part = ops::conv2d(x.narrow(0, 3, 5), weight, {}, window);
  EXPECT_EQ(whole.narrow(0, 3, 5).contiguous().to_vector<float>(), part.contiguous().to_vector<float>());
  const Array grad = ops::conv2d_grad_input(x, weight, window, x.shape());
  const Array part_grad = ops::conv2d_grad_input(x.narrow(0, 3, 5), weight, window, {5, 32, 28, 28});
  EXPECT_EQ(grad.narrow(0, 3, 5).contiguous().to_vector<float>(), part_grad.contiguous().to_vector<float>());
}

// An output that sees an Inf or NaN is not finite. Other outputs in its tile may not be finite either.
TEST(ConvTiles, ShowWhatIsNotFinite) {
  const Window window{.kernel = 3, .padding = 1};
  const Shape shape{2, 32, 20, 20};
  ASSERT_TRUE(CookToomConv({ConvPass::outputs, window, shape, shape, DType::f32}).pays());
  for (const float odd : {INFINITY, NAN}) {
    const Array x = ops::ones({2, 32, 20, 20}).channels_last();
    x.narrow(0, 1, 1).narrow(2, 9, 1).narrow(3, 13, 1).fill(odd);
    const auto y = ops::conv2d(x, ops::ones({32, 32, 3, 3}), {}, window).contiguous().to_vector<float>();
    std::int64_t spread = 0;
    for (std::int64_t i = 0; i < 2 * 32 * 400; ++i) {
      const std::int64_t h = i / 20 % 20, w = i % 20;
      const bool finite = std::isfinite(y[static_cast<std::size_t>(i)]);
      const bool sees = i >= 32 * 400 && std::abs(h - 9) <= 1 && std::abs(w - 13) <= 1;
      EXPECT_FALSE(sees && finite) << h << ' ' << w;
      spread += !finite;
    }
    EXPECT_LE(spread, 32 * 64);  // at most four tiles of 4 x 4
  }
}

TEST(ConvTiles, AreLeftOutWhereConvolutionsMustBeExact) {
  manual_seed(4);
  const Window window{.kernel = 5, .padding = 2};
  const Array x = ops::randn({4, 16, 14, 14}).channels_last(), weight = ops::randn({32, 16, 5, 5});
  const Array y = ops::conv2d(x.to(DType::f64), weight.to(DType::f64), {}, window);
  EXPECT_GT(relative_rms(ops::conv2d(x, weight, {}, window), y), 1e-6);
  set_exact_convolutions(true);
  const double exact = relative_rms(ops::conv2d(x, weight, {}, window), y);
  set_exact_convolutions(false);
  EXPECT_LT(exact, 5e-7);
}

// 16-bit images are converted tile by tile, and sums are in f32.
TEST(ConvTiles, Take16Bits) {
  manual_seed(6);
  const Case c{{3, 20, 15, 17}, 24, {.kernel = 3, .padding = 1}};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Array x = ops::randn(c.x).channels_last().to(dtype), weight = ops::randn({24, 20, 3, 3}).to(dtype);
    const Array y = Array::empty_channels_last({3, 24, 15, 17}, dtype);
    const CookToomChoice tiles = square(scheme<4, 3>);
    CookToomConv({ConvPass::outputs, c.window, c.x, y.shape(), dtype}, tiles).run({.x = x, .weight = weight, .y = y});
    const Array expected = ops::conv2d(x.to(DType::f64), weight.to(DType::f64), {}, c.window);
    const double rounding = dtype == DType::bf16 ? 2e-3 : 3e-4;  // of only the result
    EXPECT_LT(relative_rms(y, expected), rounding);

    const Array grad_weight = Array::empty(weight.shape(), dtype);
    const Array more = ops::randn(c.x).channels_last().to(dtype), before = more.to(DType::f64);
    cpu::ConvLayer layer(ConvPass::both_gradients, c.window, c.x, y.shape(), dtype);
    layer.add = true;
    CookToomConv(layer, tiles).run({.x = x, .weight = weight, .y = y, .grad_x = more, .grad_weight = grad_weight});
    const Array grad = ops::conv2d_grad_input(y.to(DType::f64), weight.to(DType::f64), c.window, c.x);
    EXPECT_LT(relative_rms(more, ops::zip(functors::Add{}, before, grad)), rounding);
  }
}

// Returns the note in a trace about a convolution of `x` with 3 x 3 kernels.
std::string kernel_in_trace(const Shape& x) {
  const testing::TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  Profile::start(path);
  {
    const Scope scope("conv2d");
    ops::conv2d(ops::ones(x).channels_last(), ops::ones({x[1], x[1], 3, 3}), {}, {.kernel = 3, .padding = 1});
  }
  Profile::stop();
  for (const auto& range : testing::read_trace(path).ranges)
    if (range.at("name") == "conv2d") return range.at("args").at("kernel");
  return "no range";
}

TEST(ConvTiles, TraceSaysWhichKernelAndWhy) {
  const auto expect_match = [](const std::string& kernel, const std::string& expected) {
    EXPECT_TRUE(std::regex_match(kernel, std::regex(expected))) << kernel;
  };
  expect_match(kernel_in_trace({1, 32, 28, 28}), "tiles of F.., 3. by F.., 3., estimated at [0-9]+ % of direct sums");
  expect_match(kernel_in_trace({1, 16, 3, 3}), "oneDNN; tiles of .* estimated at .*");
  expect_match(kernel_in_trace({1, 64, 2, 2}), "a product for each tap; tiles of .*");
  set_exact_convolutions(true);
  EXPECT_EQ(kernel_in_trace({1, 32, 28, 28}), "oneDNN");
  set_exact_convolutions(false);
}

}  // namespace
}  // namespace tandem
