// Batch normalisation and max pooling have the same results on the GPU as on the CPU.
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

namespace tandem {
namespace {

const Device cuda = Device::cuda(0);
const Shape shapes[] = {
    {2, 16, 6, 8},   // packs of channels
    {3, 33, 5, 7},   // no packs, several tiles, odd sizes
    {1, 1, 3, 2},    // one channel, one image
    {2, 3, 2, 5},    //
    {1, 136, 3, 3},  // packs, several tiles, the last of them not full
    {4, 16, 1, 1},   // one pixel
    {2, 8, 21, 25},  // several blocks of rows
};
const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Array numbers(const Shape& shape, DType dtype, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.5, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.product()));
  for (double& v : values) v = normal(random);
  return Array::from(values, shape).to(dtype);
}

// The relative size of one rounding to dtype.
double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::bf16: return 0x1p-7;
    case DType::f16: return 0x1p-10;
    default: return 0x1p-23;
  }
}

DType statistics_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// `tolerance` is relative to the larger of 1 and the expected magnitude.
void expect_near(const Array& expected, const Array& found, double tolerance) {
  ASSERT_EQ(expected.shape(), found.shape());
  ASSERT_EQ(expected.dtype(), found.dtype());
  ASSERT_EQ(found.device(), cuda);
  const auto e = expected.to_vector<double>(), f = found.to_vector<double>();
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (std::isnan(e[i]) || std::isinf(e[i])) {
      ASSERT_EQ(std::isnan(e[i]), std::isnan(f[i])) << "element " << i << " of " << expected.shape();
      if (std::isinf(e[i])) {
        ASSERT_EQ(e[i], f[i]);
      }
      continue;
    }
    ASSERT_NEAR(e[i], f[i], tolerance * std::max(1.0, std::abs(e[i])))
        << "element " << i << " of " << expected.shape() << ' ' << expected.dtype();
  }
}

// The devices add in different orders, and summands may be larger than their sum. Allows `roundings` roundings in the
// computing type, and one to the result's dtype. With 0, the bits must be the same.
void expect_same(const Array& expected, const Array& found, double roundings) {
  const DType dtype = expected.dtype();
  expect_near(expected, found, roundings == 0 ? 0 : epsilon(dtype) + roundings * epsilon(statistics_dtype(dtype)));
}

// The weights are so near to 1 that no result is a small difference of large numbers.
BatchNormAffine affine_of(std::int64_t channels, DType dtype) {
  const DType d = statistics_dtype(dtype);
  return {numbers({channels}, d, 5), ops::map(functors::Affine{0.1, 1}, numbers({channels}, d, 6)),
          numbers({channels}, d, 7), numbers({channels}, d, 8)};
}

BatchNormAffine to(const BatchNormAffine& a, Device device) {
  return {a.mean.to(device), a.invstd.to(device), a.weight.to(device), a.bias.to(device)};
}

std::string name(const Shape& shape, DType dtype) {
  std::ostringstream out;
  out << shape << ' ' << dtype;
  return out.str();
}

TEST(CudaBatchNorm, Statistics) {
  for (const DType dtype : dtypes)
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(name(shape, dtype));
      const Array x = numbers(shape, dtype);
      const auto expected = ops::batch_norm_stats(x), found = ops::batch_norm_stats(x.to(cuda));
      expect_same(expected.count, found.count, 0);
      expect_same(expected.mean, found.mean, 4);
      expect_same(expected.m2, found.m2, 16);
    }
}

TEST(CudaBatchNorm, StatisticsAreStable) {
  // Values near 10^4 with small differences: a variance computed from the sum of squares would lose all digits.
  const Shape shape{2, 3, 120, 120};
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 10000.0f + static_cast<float>(i % 8) * 0.125f;
  const Array x = Array::from(values, shape);
  const auto exact = ops::batch_norm_stats(x.to(DType::f64)), found = ops::batch_norm_stats(x.to(cuda));
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(found.mean.select(0, c).item(), exact.mean.select(0, c).item(), 1e-3);
    EXPECT_NEAR(found.m2.select(0, c).item() / exact.m2.select(0, c).item(), 1, 1e-4);
  }
}

TEST(CudaBatchNorm, StatisticsOfNothingAndOfOneValue) {
  const auto none = ops::batch_norm_stats(Array::empty({0, 5, 3, 3}, DType::f32, cuda));
  EXPECT_EQ(none.mean.to_vector<float>(), std::vector<float>(5, 0));
  EXPECT_EQ(none.m2.to_vector<float>(), std::vector<float>(5, 0));
  const auto one = ops::batch_norm_stats(ops::full({1, 5, 1, 1}, 1e30).to(cuda));
  EXPECT_EQ(one.mean.to_vector<float>(), std::vector<float>(5, 1e30f));
  EXPECT_EQ(one.m2.to_vector<float>(), std::vector<float>(5, 0));
}

TEST(CudaBatchNorm, StatisticsAreTheSameEveryTime) {
  const Array x = numbers({2, 16, 40, 40}, DType::f32).to(cuda);
  const auto first = ops::batch_norm_stats(x), second = ops::batch_norm_stats(x);
  EXPECT_EQ(first.mean.to_vector<float>(), second.mean.to_vector<float>());
  EXPECT_EQ(first.m2.to_vector<float>(), second.m2.to_vector<float>());
}

TEST(CudaBatchNorm, StatisticsMoveTheRunningOnes) {
  for (const DType dtype : dtypes)
    for (const std::int64_t images : {0, 3}) {
      const Array x = numbers({images, 33, 5, 7}, dtype);
      const auto update = [](Device device) {
        return BatchNormUpdate{ops::full({33}, 0.25).to(device),     ops::full({33}, 4).to(device), {}, 0.125, 1e-5,
                               ops::scalar(6, DType::i64).to(device)};
      };
      BatchNormUpdate here = update(Device{}), at_once = update(cuda), afterwards = update(cuda);
      ops::batch_norm_stats(x, &here);
      ops::batch_norm_stats(x.to(cuda), &at_once);
      const Array packed = ops::batch_norm_stats(x.to(cuda)).packed;
      ops::batch_norm_combine(packed.reshape({1, packed.numel()}), afterwards);
      for (const auto& there : {at_once, afterwards}) {
        expect_same(here.running_mean, there.running_mean, 4);
        expect_same(here.running_var, there.running_var, 4);
        expect_same(here.invstd, there.invstd, 4);
        EXPECT_EQ(there.num_batches.item(), 7);
      }
      EXPECT_EQ(here.running_mean.to_vector<float>()[0] == 0.25f, images == 0);
    }
}

// Compares forward and both parts of backward.
void check(const Array& x, BatchNormFusion fusion) {
  const std::int64_t channels = x.dim(1);
  const BatchNormAffine affine = affine_of(channels, x.dtype()), there = to(affine, cuda);
  const auto expected = ops::batch_norm_apply(x, affine, fusion);
  const auto found = ops::batch_norm_apply(x.to(cuda), there, fusion);
  expect_same(expected.y, found.y, 64);
  if (fusion.max_pool_2x2) {
    expect_same(expected.selected, found.selected, 0);
    expect_same(expected.index, found.index, 0);
  }
  const Array grad = numbers(expected.y.shape(), x.dtype(), 2);
  const Array& remembered = fusion.max_pool_2x2 ? expected.selected : x;
  const auto sums = ops::batch_norm_grad_reduce(remembered, affine, fusion, grad);
  const auto sums_there = ops::batch_norm_grad_reduce(remembered.to(cuda), there, fusion, grad.to(cuda));
  expect_same(sums.dy, sums_there.dy, 64);
  expect_same(sums.dy_xhat, sums_there.dy_xhat, 64);
  for (const auto& count : {std::optional(ops::scalar(100, affine.mean.dtype())), std::optional<Array>()}) {
    const auto count_there = count ? std::optional(count->to(cuda)) : std::nullopt;
    const Array grad_x = ops::batch_norm_grad_input(x, affine, fusion, grad, expected.index, sums, count, false);
    for (const bool in_place : {false, true}) {
      const Array copy = x.channels_last().to(cuda);
      expect_same(grad_x,
                  ops::batch_norm_grad_input(copy, there, fusion, grad.to(cuda), found.index, sums_there, count_there,
                                             in_place),
                  64);
      if (!in_place) expect_same(x, copy, 0);
    }
  }
}

void check_pool(const Array& x, const Window& window) {
  const std::int64_t needed_h = window.dilation.h * (window.kernel.h - 1) + 1 - 2 * window.padding.h;
  const std::int64_t needed_w = window.dilation.w * (window.kernel.w - 1) + 1 - 2 * window.padding.w;
  if (x.dim(2) < needed_h || x.dim(3) < needed_w) return;
  const auto expected = ops::max_pool2d(x, window), found = ops::max_pool2d(x.to(cuda), window);
  expect_same(expected.y, found.y, 0);
  expect_same(expected.index, found.index, 0);
  const Array grad = numbers(expected.y.shape(), x.dtype(), 2);
  const Pooling pooling = ops::pooling_of(x, window, false, "");
  expect_same(ops::max_pool2d_grad(grad, expected.index, pooling),
              ops::max_pool2d_grad(grad.to(cuda), found.index, pooling), 0);
}

TEST(CudaBatchNorm, ForwardAndBackward) {
  for (const DType dtype : dtypes)
    for (const Shape& shape : shapes)
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(name(shape, dtype) + (relu ? " relu" : ""));
        check(numbers(shape, dtype), {.relu = relu});
        if (shape[2] >= 2 && shape[3] >= 2) check(numbers(shape, dtype), {.relu = relu, .max_pool_2x2 = true});
      }
}

// The work takes more than one pass of all blocks.
TEST(CudaBatchNorm, ManyChannelsLeaveFewBlocksForTheRows) {
  const Array x = numbers({1, 4241, 9, 9}, DType::f64);
  const auto expected = ops::batch_norm_stats(x), found = ops::batch_norm_stats(x.to(cuda));
  expect_same(expected.mean, found.mean, 4);
  expect_same(expected.m2, found.m2, 16);
  check(x, {.relu = true});
  check_pool(x, {1, 1, 0, 1});
  const Array y = numbers({1, 4241, 16, 16}, DType::f64);
  const BatchNormAffine affine = affine_of(4241, DType::f64), there = to(affine, cuda);
  const BatchNormFusion fusion{.relu = true, .max_pool_2x2 = true};
  const auto pooled = ops::batch_norm_apply(y, affine, fusion);
  const auto pooled_there = ops::batch_norm_apply(y.to(cuda), there, fusion);
  expect_same(pooled.y, pooled_there.y, 64);
  expect_same(pooled.index, pooled_there.index, 0);
  const Array count = ops::scalar(4, DType::f64);
  const ops::BatchNormSums sums{affine.mean, affine.bias}, sums_there{there.mean, there.bias};
  expect_same(ops::batch_norm_grad_input(y, affine, fusion, pooled.y, pooled.index, sums, count, false),
              ops::batch_norm_grad_input(y.to(cuda), there, fusion, pooled_there.y, pooled_there.index, sums_there,
                                         count.to(cuda), false),
              64);
  EXPECT_THROW(ops::batch_norm_stats(Array::empty({1, 131073, 1, 1}, DType::f32, cuda)), Error);
}

TEST(CudaBatchNorm, TakesViewsThatAreNotAligned) {
  const Array x = numbers({3, 16, 4, 4}, DType::f32);
  const Array storage = numbers({3 * 16 * 4 * 4 + 1}, DType::f32).to(cuda);
  const Array view = storage.slice(0, 1, storage.numel()).reshape({3, 4, 4, 16}).permute({0, 3, 1, 2});
  Array shifted = view;
  shifted.copy_from(x.to(cuda));
  ASSERT_TRUE(shifted.is_channels_last());
  const auto affine = affine_of(16, DType::f32);
  const BatchNormFusion fusion{.relu = true, .max_pool_2x2 = true};
  expect_same(ops::batch_norm_stats(x).m2, ops::batch_norm_stats(shifted).m2, 16);
  expect_same(ops::batch_norm_apply(x, affine, fusion).y, ops::batch_norm_apply(shifted, to(affine, cuda), fusion).y,
              64);
  expect_same(ops::max_pool2d(x, Window{2, 2, 0, 1}).y, ops::max_pool2d(shifted, Window{2, 2, 0, 1}).y, 0);
}

// Windows with equal numbers, NaN, and numbers that ReLU stops, in every position.
Array awkward(const Shape& shape, DType dtype) {
  std::mt19937 random(3);
  const double choices[] = {0, 0, 1, 1, -1, 2, NAN, INFINITY, -INFINITY};
  std::vector<double> values(static_cast<std::size_t>(shape.product()));
  for (double& v : values) v = choices[random() % std::size(choices)];
  return Array::from(values, shape).to(dtype);
}

TEST(CudaBatchNorm, TiesAndNanGoWhereTheyGoOnTheCpu) {
  for (const DType dtype : dtypes)
    for (const bool relu : {false, true}) {
      const Array x = awkward({4, 16, 6, 7}, dtype);
      const DType d = statistics_dtype(dtype);
      const BatchNormAffine plain{ops::zeros({16}, d), ops::ones({16}, d), ops::full({16}, -2, d),
                                  ops::full({16}, 2, d)};
      const BatchNormFusion fusion{.relu = relu, .max_pool_2x2 = true};
      const auto expected = ops::batch_norm_apply(x, plain, fusion);
      const auto found = ops::batch_norm_apply(x.to(cuda), to(plain, cuda), fusion);
      expect_same(expected.y, found.y, 0);
      expect_same(expected.selected, found.selected, 0);
      expect_same(expected.index, found.index, 0);
    }
}

TEST(CudaBatchNorm, EmptyBatch) {
  const Array none = Array::empty({0, 3, 4, 4}, DType::f32, cuda);
  const auto affine = to(affine_of(3, DType::f32), cuda);
  for (const bool pool : {false, true}) {
    const BatchNormFusion fusion{.relu = true, .max_pool_2x2 = pool};
    const auto out = ops::batch_norm_apply(none, affine, fusion);
    const auto sums = ops::batch_norm_grad_reduce(pool ? out.selected : none, affine, fusion, out.y);
    EXPECT_EQ(sums.dy.to_vector<float>(), std::vector<float>(3, 0));
    EXPECT_EQ(ops::batch_norm_grad_input(none, affine, fusion, out.y, out.index, sums, std::nullopt, false).shape(),
              none.shape());
  }
}

const Window windows[] = {
    {2, 2, 0, 1}, {3, 2, 1, 1}, {3, 1, 1, 1}, {{2, 3}, {1, 2}, {1, 0}, {2, 1}}, {{3, 1}, {3, 1}, {1, 0}, 1},
    {1, 2, 0, 1},
};

TEST(CudaMaxPool, ForwardAndBackward) {
  for (const DType dtype : dtypes)
    for (const Shape& shape : shapes)
      for (const Window& window : windows) {
        std::ostringstream what;
        what << " kernel " << window.kernel << " stride " << window.stride << " padding " << window.padding;
        SCOPED_TRACE(name(shape, dtype) + what.str());
        check_pool(numbers(shape, dtype), window);
      }
}

TEST(CudaMaxPool, TiesAndNanGoWhereTheyGoOnTheCpu) {
  for (const DType dtype : dtypes)
    for (const Window& window : windows) check_pool(awkward({2, 16, 6, 7}, dtype), window);
}

TEST(CudaMaxPool, WindowsOfNothingButPadding) { check_pool(numbers({2, 16, 2, 2}, DType::f32), {2, 1, 1, 3}); }

TEST(CudaMaxPool, EmptyBatch) {
  const Array none = Array::empty({0, 3, 4, 4}, DType::f32, cuda);
  const auto pooled = ops::max_pool2d(none, Window{2, 2, 0, 1});
  EXPECT_EQ(ops::max_pool2d_grad(pooled.y, pooled.index, ops::pooling_of(none, {2, 2, 0, 1}, false, "")).shape(),
            none.shape());
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaBatchNorm, EachPhaseIsOneKernel) {
  const Array x = numbers({2, 16, 40, 40}, DType::f32).channels_last().to(cuda);
  const auto affine = to(affine_of(16, DType::f32), cuda);
  const BatchNormFusion fusion{.relu = true, .max_pool_2x2 = true};
  auto& log = emulation::driver().log;
  BatchNormUpdate update{ops::zeros({16}).to(cuda), ops::ones({16}).to(cuda), {}, 0.1, 1e-5};
  log.clear();
  const auto stats = ops::batch_norm_stats(x, &update);
  const auto out = ops::batch_norm_apply(x, affine, fusion);
  const auto sums = ops::batch_norm_grad_reduce(out.selected, affine, fusion, out.y);
  ops::batch_norm_grad_input(x, affine, fusion, out.y, out.index, sums, stats.count, false);
  EXPECT_EQ(std::ranges::count_if(log, [](const auto& call) { return call.starts_with("launch"); }), 4);
  EXPECT_EQ(
      std::ranges::count_if(log, [](const auto& call) { return call.starts_with("set") || call.starts_with("copy"); }),
      0);
}
#endif

}  // namespace
}  // namespace tandem
