// Matrix products and convolutions on the GPU equal those on the CPU for all strides, dtypes and shapes.
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/into.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/backend/device_graph.h>

#include "libraries.h"
#include "support/temporary_folder.h"
#include "work_log.h"
#endif

namespace tandem {
namespace {

const Device cuda = Device::cuda(0);

Array numbers(const Shape& shape, DType dtype, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (float& v : values) v = normal(random);
  return Array::from(values, shape).to(dtype);
}

// Half a unit in the last place.
double precision(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::ldexp(1, -53);
    case DType::f32: return std::ldexp(1, -24);
    case DType::f16: return std::ldexp(1, -11);
    default: return std::ldexp(1, -8);
  }
}

// `found` is a sum of `terms` products of about 1, added in f32 (or f64) in any order and then rounded to its dtype.
// `expected` is the same sum, but its bias may have been rounded separately.
void expect_same(const Array& expected, const Array& found, std::int64_t terms) {
  ASSERT_EQ(expected.shape(), found.shape());
  ASSERT_EQ(expected.dtype(), found.dtype());
  const DType dtype = found.dtype();
  const double n = static_cast<double>(terms);
  const double sum = 4 * n * precision(dtype == DType::f64 ? DType::f64 : DType::f32);
  const auto e = expected.to_vector<double>(), f = found.to_vector<double>();
  for (std::size_t i = 0; i < e.size(); ++i)
    ASSERT_NEAR(e[i], f[i], sum + 3 * precision(dtype) * (std::abs(e[i]) + 4)) << "element " << i;
}

class CudaLinear : public ::testing::TestWithParam<DType> {
 protected:
  void TearDown() override {
    set_tf32(before_.tf32_matmul, before_.tf32_conv);
    set_deterministic(before_.deterministic);
  }

 private:
  const MathMode before_ = math_mode();
};

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLinear, ::testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                         [](const auto& info) {
                           std::ostringstream name;
                           name << info.param;
                           return name.str();
                         });

// The difference between TF32 and f32 is limited: operands have 10 bits of mantissa, and sums are f32. GPUs older than
// Ampere have no TF32 and compute in f32 here.
TEST(CudaTf32, IsAsNearAsItsOperandsAllow) {
  const MathMode before = math_mode();
  const Array x = numbers({4, 8, 12, 10}, DType::f32), w = numbers({72, 8, 3, 3}, DType::f32, 2);
  const Array grad = numbers({4, 72, 12, 10}, DType::f32, 3);
  const Window window{.kernel = 3, .padding = 1};
  const Array a = numbers({40, 72}, DType::f32), b = numbers({72, 24}, DType::f32, 2);
  const auto all = [&](Device device) {
    const Array there = x.to(device), weight = w.to(device), grad_y = grad.to(device);
    return std::vector<Array>{ops::conv2d(there, weight, std::nullopt, window),
                              ops::conv2d_grad_input(grad_y, weight, window, x.shape()),
                              ops::conv2d_grad_weight(there, grad_y, window, 72, false, DType::f32).weight,
                              ops::matmul(a.to(device), b.to(device))};
  };
  // Each operand has a relative error of at most 2^-11, on average a quarter of that, and errors have either sign.
  const double terms[] = {72, 648, 480, 72};
  const auto expected = all(Device{});
  set_tf32(true, true);
  const auto found = all(cuda);
  set_tf32(before.tf32_matmul, before.tf32_conv);
  const auto exact = all(cuda);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto e = expected[i].to_vector<double>(), f = found[i].to_vector<double>();
    double largest = 0;
    for (std::size_t k = 0; k < e.size(); ++k) largest = std::max(largest, std::abs(e[k] - f[k]));
    EXPECT_LT(largest, 8 * std::ldexp(1, -12) * std::sqrt(terms[i])) << "result " << i;
    // Winograd's algorithm, which cuDNN may choose for a convolution, amplifies rounding errors.
    expect_same(expected[i], exact[i], static_cast<std::int64_t>(i < 3 ? 4 * terms[i] : terms[i]));
#ifdef TANDEM_EMULATED_CUDA
    EXPECT_GT(largest, std::ldexp(1, -14)) << "result " << i << " is not TF32's";
#endif
  }
}

TEST_P(CudaLinear, MultipliesViews) {
  const DType dtype = GetParam();
  const auto views = [&](std::int64_t rows, std::int64_t columns, unsigned seed) {
    return std::vector<Array>{
        numbers({rows, columns}, dtype, seed),
        numbers({columns, rows}, dtype, seed).transpose(0, 1),
        numbers({rows, columns + 3}, dtype, seed).slice(1, 1, columns + 1),
        numbers({columns + 3, rows}, dtype, seed).slice(0, 2, columns + 2).transpose(0, 1),
        numbers({rows, columns, 2}, dtype, seed).select(2, 1),
        numbers({1, columns}, dtype, seed).expand({rows, columns}),
    };
  };
  const auto on_gpu = [&](const Array& v) {  // the same view in the GPU's memory
    const std::int64_t last = v.offset() + (v.dim(0) - 1) * v.strides()[0] + (v.dim(1) - 1) * v.strides()[1];
    const Array all(v.storage(), {last + 1}, {1}, 0, dtype);
    return Array(all.to(cuda).storage(), v.shape(), v.strides(), v.offset(), dtype);
  };
  for (const auto& [m, k, n] : {std::array{5, 7, 3}, {1, 8, 4}, {6, 1, 5}, {4, 9, 1}, {1, 1, 1}})
    for (const Array& a : views(m, k, 1))
      for (const Array& b : views(k, n, 2)) {
        SCOPED_TRACE(::testing::Message() << a.shape() << a.strides() << " x " << b.shape() << b.strides());
        expect_same(ops::matmul(a, b), ops::matmul(on_gpu(a), on_gpu(b)), k);
      }
}

TEST_P(CudaLinear, AddsABiasOfAnyDType) {
  const DType dtype = GetParam();
  const Array a = numbers({5, 7}, dtype), b = numbers({3, 7}, dtype, 2).transpose(0, 1);
  [[maybe_unused]] const Array longer = numbers({6, 7}, dtype);
  for (const Array& bias : {numbers({3}, dtype, 3), numbers({3}, DType::f32, 4), numbers({4}, dtype, 5).slice(0, 1, 4),
                            numbers({3, 2}, dtype, 6).select(1, 0)}) {
    expect_same(ops::matmul(a, b, bias), ops::matmul(a.to(cuda), b.to(cuda), bias.to(cuda)), 8);
#ifdef TANDEM_EMULATED_CUDA
    emulation::libraries().add_bias = false;  // needs a new shape, because plans are kept
    expect_same(ops::matmul(longer, b, bias), ops::matmul(longer.to(cuda), b.to(cuda), bias.to(cuda)), 8);
    emulation::libraries().add_bias = true;
#endif
  }
}

// The gradients of a linear layer's weight and bias, in one pass if the library supports it.
TEST_P(CudaLinear, SumsTheRowsBesideAProduct) {
  const DType dtype = GetParam(), wide = size_of(dtype) == 2 ? DType::f32 : dtype;
  const Array a = numbers({33, 5}, dtype).transpose(0, 1), b = numbers({33, 7}, dtype, 2);
  const Array y = Array::empty({5, 7}, wide, cuda), sums = Array::empty({5}, wide, cuda);
  if (!ops::matmul_with_row_sums_into(a.transpose(0, 1).to(cuda).transpose(0, 1), b.to(cuda), y, sums)) return;
  expect_same(ops::matmul(a.to(wide), b.to(wide)), y, 33);
  expect_same(ops::reduce(Reduction::sum, a.to(wide), {1}), sums, 33);
#ifdef TANDEM_EMULATED_CUDA
  emulation::libraries().sum_rows = false;
  EXPECT_FALSE(ops::matmul_with_row_sums_into(a.contiguous().to(cuda), b.to(cuda), y, sums));
  emulation::libraries().sum_rows = true;
#endif
}

TEST_P(CudaLinear, AProductOfNothingIsTheBias) {
  const DType dtype = GetParam();
  const Array a = Array::empty({2, 0}, dtype, cuda), b = Array::empty({0, 3}, dtype, cuda);
  const Array bias = numbers({3}, dtype);
  expect_same(ops::zeros({2, 3}, dtype), ops::matmul(a, b), 1);
  expect_same(ops::zip(functors::Add{}, ops::zeros({2, 3}, dtype), bias), ops::matmul(a, b, bias.to(cuda)), 1);
  EXPECT_EQ(ops::matmul(Array::empty({0, 4}, dtype, cuda), Array::empty({4, 3}, dtype, cuda)).shape(), Shape({0, 3}));
}

struct ConvolutionCase {
  Shape x;
  std::int64_t out;
  Window window;
};

// Compares forward and both gradients. Weights and biases have the dtype `parameters`.
void expect_same_convolution(const ConvolutionCase& c, DType dtype, DType parameters) {
  const auto& [shape, out, window] = c;
  SCOPED_TRACE(::testing::Message() << shape << ' ' << dtype << ", kernel " << window.kernel << ", parameters "
                                    << parameters);
  const Array x = numbers(shape, dtype).channels_last();
  const Array weight = numbers({out, shape[1], window.kernel.h, window.kernel.w}, parameters, 2);
  const Array bias = numbers({out}, parameters, 3);
  const std::int64_t terms = weight.numel() / out + 1;

  // The CPU computes in f64, because its fast convolutions in f32 are less accurate than a GPU's.
  const auto wide = [&](const Array& a) { return a.to(dtype).to(DType::f64); };
  const Array taps = wide(weight), y = ops::conv2d(wide(x), taps, wide(bias), window).to(dtype);
  expect_same(y, ops::conv2d(x.to(cuda), weight.to(cuda), bias.to(cuda), window), terms);
  expect_same(ops::conv2d(wide(x), taps, {}, window).to(dtype), ops::conv2d(x.to(cuda), weight.to(cuda), {}, window),
              terms);

  const Array grad_y = numbers(y.shape(), dtype, 4).channels_last();
  expect_same(ops::conv2d_grad_input(wide(grad_y), taps, window, shape).to(dtype),
              ops::conv2d_grad_input(grad_y.to(cuda), weight.to(cuda), window, shape), weight.numel() / shape[1]);
  const auto expected = ops::conv2d_grad_weight(wide(x), wide(grad_y), window, out, true, DType::f64);
  const auto found = ops::conv2d_grad_weight(x.to(cuda), grad_y.to(cuda), window, out, true, parameters);
  const std::int64_t pixels = y.numel() / out;
  // cuDNN returns sums of 16-bit numbers in 16 bits.
  expect_same(expected.weight.to(dtype), found.weight.to(dtype), pixels);
  expect_same(expected.bias.to(parameters), found.bias, pixels);
}

const ConvolutionCase convolutions[] = {
    {{2, 3, 7, 6}, 4, {.kernel = 3, .stride = 1, .padding = 1}},
    {{2, 1, 8, 8}, 5, {.kernel = 5, .stride = 1, .padding = 2}},
    {{1, 4, 5, 5}, 3, {.kernel = 1}},
    {{2, 2, 9, 8}, 3, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}}},
    {{1, 3, 9, 9}, 2, {.kernel = 3, .stride = 2, .padding = 2, .dilation = 2}},
    {{3, 2, 1, 1}, 1, {.kernel = 1}},
    // Matrix products, and convolutions that are equivalent to a matrix product.
    {{3, 24, 9, 4}, 16, {.kernel = 1}},
    {{2, 8, 5, 7}, 6, {.kernel = 1, .dilation = 3}},
    {{2, 8, 7, 7}, 4, {.kernel = 1, .stride = 2}},
    {{2, 8, 4, 3}, 4, {.kernel = 1, .padding = 1}},
    // Few channels, which have special kernels. The sizes are odd, an image has several bands, and a thread has several
    // rows.
    {{3, 1, 13, 11}, 32, {.kernel = 5, .padding = 2}},
    {{2, 1, 9, 10}, 16, {.kernel = {3, 4}, .stride = {1, 2}, .padding = {0, 3}, .dilation = {2, 1}}},
    {{2, 3, 40, 31}, 4, {.kernel = 3, .padding = 1}},
    {{2, 8, 6, 7}, 4, {.kernel = 5}},
    {{2, 2, 7, 5}, 12, {.kernel = 5, .padding = 4}},
    // A block has several slices of rows: as many as there are rows, or as fit into shared memory.
    {{70, 1, 9, 6}, 16, {.kernel = 5, .padding = 2}},
    {{66, 3, 12, 3}, 8, {.kernel = 3, .padding = 1}},
    {{66, 8, 30, 3}, 4, {.kernel = 5, .padding = 2}},
};

void expect_same_added_gradient(std::int64_t width, std::int64_t kernel, DType dtype) {
  const Array x = numbers({2, 8, 7, width}, dtype).channels_last();
  const Array grad_y = numbers({2, 16, 7, width}, dtype, 3).channels_last();
  const Array before = numbers(x.shape(), dtype, 4).channels_last();
  const Window window{.kernel = kernel, .padding = kernel / 2};
  const Array weight = numbers({16, 8, kernel, kernel}, dtype, 2);
  const auto grads = [&](Device device) {
    const auto place = ops::empty_weight_grad(x.to(device), window, 16, true, dtype);
    return ops::conv2d_grads_into(x.to(device), grad_y.to(device), weight.to(device), window, place.weight, place.bias,
                                  before.to(device).clone().channels_last());
  };
  for (int i = 0; i < 2; ++i) expect_same(grads(Device{}), grads(cuda), 16 * 9);
}

TEST_P(CudaLinear, AddsTheGradientOfAnInputToAnother) {
  for (const std::int64_t kernel : {3, 1}) expect_same_added_gradient(5, kernel, GetParam());
}

TEST_P(CudaLinear, Convolves) {
  for (const ConvolutionCase& c : convolutions) {
    expect_same_convolution(c, GetParam(), GetParam());
    if (size_of(GetParam()) == 2) expect_same_convolution(c, GetParam(), DType::f32);
  }
}

TEST_P(CudaLinear, TheGradientsOfAnEmptyBatchAreZero) {
  const DType dtype = GetParam();
  const Window window{.kernel = 5, .padding = 2};
  for (const std::int64_t channels : {1, 3, 200}) {
    const Array x = Array::empty_channels_last({0, channels, 8, 8}, dtype, cuda);
    const Array grad_y = Array::empty_channels_last({0, 4, 8, 8}, dtype, cuda);
    const auto place = ops::empty_weight_grad(x, window, 4, true, dtype);
    ops::conv2d_grad_weight_into(x, grad_y, window, place.weight, place.bias);
    expect_same(ops::zeros(place.weight.shape(), dtype), place.weight, 1);
    expect_same(ops::zeros({4}, dtype), place.bias, 1);
  }
}

// Several blocks sum the bias gradient while others convert the weight gradient.
TEST_P(CudaLinear, SumsTheBiasGradientOfManyPixels) {
  const DType dtype = GetParam(), parameters = size_of(dtype) == 2 ? DType::f32 : dtype;
  const Window window{.kernel = 3, .stride = 1, .padding = 1};
  for (const std::int64_t out : {3, 40}) {
    const Array x = numbers({2, 3, 30, 30}, dtype).channels_last();
    const Array grad_y = numbers({2, out, 30, 30}, dtype, 2).channels_last();
    const auto expected = ops::conv2d_grad_weight(x, grad_y, window, out, true, parameters);
    const auto found = ops::conv2d_grad_weight(x.to(cuda), grad_y.to(cuda), window, out, true, parameters);
    expect_same(expected.bias, found.bias, 1800);
    expect_same(expected.weight.to(dtype), found.weight.to(dtype), 1800);
  }
}

TEST_P(CudaLinear, DeterministicConvolutionsGiveTheSameBitsAgain) {
  set_deterministic(true);
  const Window window{.kernel = 3, .stride = 1, .padding = 1};
  for (const auto& [shape, out] : {std::pair{Shape{8, 5, 12, 12}, 7}, {Shape{80, 2, 11, 6}, 8}}) {
    const Array x = numbers(shape, GetParam()).to(cuda);
    const Array weight = numbers({out, shape[1], 3, 3}, GetParam(), 2).to(cuda);
    const Array grad_y = numbers({shape[0], out, shape[2], shape[3]}, GetParam(), 3).to(cuda);
    const auto run = [&] {
      return std::array{ops::conv2d(x, weight, {}, window).to_vector<double>(),
                        ops::conv2d_grad_input(grad_y, weight, window, shape).to_vector<double>(),
                        ops::conv2d_grad_weight(x, grad_y, window, out, false, GetParam()).weight.to_vector<double>()};
    };
    EXPECT_EQ(run(), run());
  }
}

#ifdef TANDEM_EMULATED_CUDA
struct LibrariesThatCan {
  explicit LibrariesThatCan(emulation::Libraries can) { emulation::libraries() = can; }
  ~LibrariesThatCan() { emulation::libraries() = {}; }
};

TEST_P(CudaLinear, ConvolvesRowMajorWhereCudnnHasNothingForChannelsLast) {
  const LibrariesThatCan can({.channels_last = false});
  for (const ConvolutionCase& c : convolutions)
    expect_same_convolution(c, GetParam(), GetParam() == DType::f64 ? DType::f64 : DType::f32);
  expect_same_added_gradient(9, 3, GetParam());
}

TEST_P(CudaLinear, MultipliesInsteadOfConvolvingByOneTimesOne) {
  const Array x = numbers({2, 8, 5, 6}, GetParam()).channels_last().to(cuda);
  const Array weight = numbers({16, 8, 1, 1}, GetParam(), 2).to(cuda), bias = numbers({16}, GetParam(), 3).to(cuda);
  const Window window{.kernel = 1};
  const auto step = [&] {
    const Array y = ops::conv2d(x, weight, bias, window);
    ops::conv2d_grad_input(y, weight, window, x.shape());
    ops::conv2d_grad_weight(x, y, window, 16, true, DType::f32);
  };
  step();  // makes the library's handle
  std::vector<std::string> works;
  emulation::note_work_in(&works);
  record_graph(cuda, step);
  emulation::note_work_in(nullptr);
  if (GetParam() == DType::f64) {
    EXPECT_EQ(std::ranges::count(works, "cuDNN"), 3);  // its images are row-major
  } else {
    EXPECT_EQ(works, std::vector<std::string>(3, "cuBLAS"));
  }
}

TEST_P(CudaLinear, AddsTheBiasItselfWhereCudnnDoesNot) {
  const LibrariesThatCan can({.add_bias = false});
  for (const ConvolutionCase& c : convolutions) expect_same_convolution(c, GetParam(), GetParam());
}

// Plans are cached, so these shapes must not occur in any other test.
TEST_P(CudaLinear, ConvolvesWhereCublasHasNoProduct) {
  const LibrariesThatCan can({.multiply = false});
  expect_same_convolution({{2, 8, 6, 11}, 16, {.kernel = 1}}, GetParam(), GetParam());
  expect_same_added_gradient(11, 1, GetParam());
}

TEST_P(CudaLinear, ConvolvesWhereAProductCanNotDoMore) {
  const LibrariesThatCan can({.add_bias = false, .sum_rows = false});
  expect_same_convolution({{2, 8, 6, 13}, 16, {.kernel = 1}}, GetParam(), GetParam());
}

TEST_P(CudaLinear, SaysWhatCublasCantMultiply) {
  const LibrariesThatCan can({.multiply = false});
  const Array a = numbers({7, 9}, GetParam()).to(cuda), b = numbers({9, 4}, GetParam()).to(cuda);
  EXPECT_ERROR(ops::matmul(a, b), "matmul: cuBLASLt has no algorithm for ",
               "(7, 9) x (9, 4) with strides (9, 1) and (4, 1)", "compute in another dtype");
}

// The message names the failure of a library and the remedy.
TEST(CudaLibraries, SayWhatFailedAndWhatToDo) {
  const Array a = numbers({3, 70}, DType::f32).to(cuda), b = numbers({70, 2}, DType::f32).to(cuda);
  const Array x = numbers({1, 3, 6, 5}, DType::f32).to(cuda), w = numbers({2, 3, 3, 3}, DType::f32).to(cuda);
  const std::pair<int, const char*> of_cublas[] = {{1, "driver is older than this cuBLAS"},
                                                   {3, "memory is full; use a smaller batch"},
                                                   {8, "too old for this cuBLAS"},
                                                   {13, "run it under compute-sanitizer"},
                                                   {7, "cublasLtMatmul of f32 (3, 70) x (70, 2)"}};
  for (const auto& [status, words] : of_cublas) {
    const LibrariesThatCan can({.cublas_failure = status});
    EXPECT_ERROR(ops::matmul(a, b), words);
  }
  const std::pair<int, const char*> of_cudnn[] = {{1001, "driver is older than this cuDNN"},
                                                  {1002, "several versions are mixed"},
                                                  {1008, "one of cuDNN's parts"},
                                                  {3005, "update it"},
                                                  {3007, "too old for this cuDNN"},
                                                  {4004, "memory is full; use a smaller batch"},
                                                  {5000, "run it under compute-sanitizer"}};
  std::int64_t padding = 1;
  for (const auto& [status, words] : of_cudnn) {
    const LibrariesThatCan can({.cudnn_failure = status});
    // Each failure uses a different window, because a failed algorithm is not tried again.
    const Window window{.kernel = 3, .padding = ++padding};
    EXPECT_ERROR(ops::conv2d(x, w, {}, window), words);
  }
}

// Plans are cached, so these shapes must not occur in any other test.
TEST(CudaLibraries, SayWhatTheyLookedForWhenThatFails) {
  const LibrariesThatCan can({.cublas_failure = 1, .cudnn_failure = 1001, .fails_early = true});
  const Array a = numbers({8, 9}, DType::f32).to(cuda), b = numbers({9, 5}, DType::f32).to(cuda);
  EXPECT_ERROR(ops::matmul(a, b), "cublasLtMatmulAlgoGetHeuristic", "driver is older than this cuBLAS");
  const Array x = numbers({1, 3, 6, 17}, DType::f32).to(cuda), w = numbers({2, 3, 3, 3}, DType::f32).to(cuda);
  const Window window{.kernel = 3};
  EXPECT_ERROR(ops::conv2d(x, w, {}, window),
               "heuristics for forward f32 nhwc (1, 3, 6, 17) x (2, 3, 3, 3) -> (1, 2, 4, 15)",
               "driver is older than this cuDNN");
}

TEST(CudaLibraries, NameTheConvolutionThatFailed) {
  const LibrariesThatCan can({.cudnn_failure = 5000});
  set_deterministic(true);  // algorithms are not tried out first
  const Array x = numbers({1, 3, 6, 18}, DType::f32).to(cuda), w = numbers({2, 3, 3, 3}, DType::f32).to(cuda);
  const Window window{.kernel = 3};
  EXPECT_ERROR(ops::conv2d(x, w, {}, window), "forward f32 nhwc (1, 3, 6, 18) x (2, 3, 3, 3)",
               "run it under compute-sanitizer");
  set_deterministic(false);
}

// The message names the pass and the shapes, even for a 1 x 1 convolution, which is usually computed as a product.
TEST_P(CudaLinear, SaysWhatCudnnCantConvolve) {
  const LibrariesThatCan can({.multiply = false, .channels_last = false, .row_major = false});
  const DType dtype = GetParam();
  for (const std::int64_t kernel : {3, 1}) {
    // Without dilation, Tandem's own kernels would compute the weight gradient.
    const Window window{.kernel = kernel, .padding = kernel - 1, .dilation = kernel == 1 ? 1 : 2};
    const Array x = numbers({2, 8, 7, 19}, dtype).channels_last().to(cuda);
    const Array weight = numbers({8, 8, kernel, kernel}, dtype).channels_last().to(cuda);
    const char *const problem = "conv2d: no algorithm of cuDNN works for ", *const shapes = "(2, 8, 7, 19) x (8, 8, ";
    EXPECT_ERROR(ops::conv2d(x, weight, {}, window), problem, "forward", shapes, "not supported");
    EXPECT_ERROR(ops::conv2d_grad_input(x, weight, window, x.shape()), problem, "grad_input", shapes);
    EXPECT_ERROR(ops::conv2d_grad_weight(x, x, window, 8, false, dtype), problem, "grad_weight", shapes);
  }
}
#endif

}  // namespace
}  // namespace tandem
