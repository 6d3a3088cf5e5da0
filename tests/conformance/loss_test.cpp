// Tests softmax and cross-entropy, and targets that are not a valid class.
#include <tandem/core/backend/backend.h>
#include <tandem/core/device/device.h>
#include <tandem/core/ops.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>

#include <limits>

#include "conformance/compare.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::error_of;
using testing::expect_same;
using testing::floating_dtypes;
using testing::gpu;
using testing::machine_epsilon;
using testing::numbers;

// The allowed error of a sum of this many rounded numbers, added in a different order from the CPU's.
double tolerance_of(DType dtype, std::int64_t summands) {
  const double sum = static_cast<double>(summands) * machine_epsilon(dtype == DType::f64 ? DType::f64 : DType::f32);
  return std::max(machine_epsilon(dtype), sum + 4 * machine_epsilon(DType::f64));
}

TEST(CudaLoss, LogSoftmax) {
  for (const DType dtype : floating_dtypes) {
    for (const Shape& shape : {Shape{1}, {3, 10}, {5, 33}, {2, 200}, {41, 21}, {2, 3, 10}, {4, 1}, {0, 3}, {3, 0}}) {
      SCOPED_TRACE(::testing::Message() << dtype << ' ' << shape);
      const Array x = numbers(shape, 1, dtype), grad = numbers(shape, 2, dtype);
      const Array y = ops::softmax(x, -1, true);
      const double tolerance = tolerance_of(dtype, shape[shape.ndim() - 1] + 4);
      expect_same(y, ops::softmax(x.to(gpu), -1, true), tolerance);
      expect_same(ops::softmax_grad(y, grad, -1, true), ops::softmax_grad(y.to(gpu), grad.to(gpu), -1, true),
                  tolerance);
    }
  }
}

TEST(CudaLoss, LogSoftmaxOfViewsAndExtremes) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Array x = Array::from(std::vector<float>{1e4f,
                                                 -1e4f,
                                                 0,  //
                                                 88,
                                                 89,
                                                 90,  //
                                                 -infinity,
                                                 1,
                                                 2,  //
                                                 infinity,
                                                 1,
                                                 2,  //
                                                 1,
                                                 std::nanf(""),
                                                 2,  //
                                                 std::nanf(""),
                                                 1,
                                                 2,  //
                                                 -infinity,
                                                 -infinity,
                                                 -infinity},
                              {7, 3});
  const auto log_softmax = [](const Array& a) { return ops::softmax(a, -1, true); };
  expect_same(log_softmax(x), log_softmax(x.to(gpu)), 1e-6);
  const Array wide = numbers({6, 40}), wide_there = wide.to(gpu);
  expect_same(log_softmax(wide.transpose(0, 1)), log_softmax(wide_there.transpose(0, 1)), 1e-6);
  expect_same(log_softmax(wide.slice(1, 3, 36)), log_softmax(wide_there.slice(1, 3, 36)), 1e-6);
}

Array targets(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> values;
  for (std::int64_t r = 0; r < rows; ++r) values.push_back((7 * r + 3) % classes);
  return Array::from(values, {rows});
}

// The work of one block and of many, rows wider than a warp, an empty batch, and packs that span two rows in one or
// many rounds.
const std::vector<Shape> batches = {{1, 1}, {20, 33}, {0, 10}, {257, 3}, {40, 21}};
const std::vector<Shape> more_batches = {{1, 1},  {20, 33},  {0, 10},  {257, 3},  {40, 21},
                                         {1, 10}, {100, 10}, {256, 4}, {9, 1000}, {120000, 21}};

TEST(CudaLoss, CrossEntropy) {
  for (const DType dtype : floating_dtypes) {
    for (const Shape& shape : dtype == DType::f32 ? more_batches : batches) {
      SCOPED_TRACE(::testing::Message() << dtype << ' ' << shape);
      const Array logits = numbers(shape, 1, dtype), target = targets(shape[0], shape[1]);
      const auto here = ops::cross_entropy(logits, target);
      const auto there = ops::cross_entropy(logits.to(gpu), target.to(gpu));
      const double tolerance = tolerance_of(here.loss.dtype(), shape[1] + 4);
      expect_same(here.loss, there.loss, tolerance);
      expect_same(here.sums, there.sums, tolerance);
      const Array grad_loss = ops::scalar(0.7, here.loss.dtype());
      expect_same(ops::cross_entropy_grad(here, logits, target, {}, {}, grad_loss),
                  ops::cross_entropy_grad(there, logits.to(gpu), target.to(gpu), {}, {}, grad_loss.to(gpu)),
                  std::max(tolerance, machine_epsilon(dtype)));
    }
  }
}

TEST(CudaLoss, CrossEntropyTakesViews) {
  const Array logits = numbers({10, 12}), logits_there = logits.to(gpu);
  const Array target = targets(24, 10).reshape({12, 2}), target_there = target.to(gpu);
  const auto loss = [](const Array& l, const Array& t) {
    return ops::cross_entropy(l.transpose(0, 1), t.select(1, 1)).loss;
  };
  expect_same(loss(logits, target), loss(logits_there, target_there), 1e-6);
}

TEST(CudaLoss, ATargetThatIsNoClassIsAnErrorAtTheNextSynchronisation) {
  for (const Shape& shape : {Shape{70, 10}, {257, 3}}) {
    for (const std::int64_t wrong : {std::int64_t{-1}, shape[1]}) {
      SCOPED_TRACE(::testing::Message() << shape << " with target " << wrong);
      const Array logits = numbers(shape).to(gpu);
      Array target = targets(shape[0], shape[1]);
      target.slice(0, 17, 20).fill(static_cast<double>(wrong));
      target.slice(0, 49, 50).fill(1000);  // if one block does everything, the same warp handles row 17
      const std::string words = error_of([&] { ops::cross_entropy(logits.to(Device{}), target); });
      EXPECT_NE(words.find("at row 17 is not a class"), std::string::npos) << words;

      const auto there = ops::cross_entropy(logits, target.to(gpu));  // throws nothing
      EXPECT_EQ(error_of([&] { there.loss.item(); }), words);
      EXPECT_TRUE(std::isnan(there.loss.item())) << "told once; but there is no loss";
      ops::cross_entropy(logits, target.to(gpu));
      EXPECT_EQ(error_of([&] { synchronize(gpu); }), words);
      synchronize(gpu);
    }
  }
}

TEST(CudaLoss, TheFirstOfSeveralErrorsIsTold) {
  const Array logits = numbers({20, 10}).to(gpu);
  Array target = targets(20, 10), other = targets(20, 10);
  target.slice(0, 3, 4).fill(10);
  other.slice(0, 2, 3).fill(11);
  const Array target_there = target.to(gpu), other_there = other.to(gpu);
  ops::cross_entropy(logits, target_there);
  ops::cross_entropy(logits, other_there);
  EXPECT_ERROR(synchronize(gpu), "target 10 at row 3");
  synchronize(gpu);
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaLoss, TheLossOfABatchIsOneKernel) {
  const Array logits = numbers({100, 10}).to(gpu), target = targets(100, 10).to(gpu);
  auto& log = emulation::driver().log;
  log.clear();
  const auto forward = ops::cross_entropy(logits, target);
  const auto launches = [&] {
    return std::count_if(log.begin(), log.end(), [](const auto& line) { return line.starts_with("launch"); });
  };
  EXPECT_EQ(launches(), 1);
  ops::cross_entropy_grad(forward, logits, target, {}, {}, forward.loss);
  EXPECT_EQ(launches(), 2);
  for (const auto& line : log) EXPECT_FALSE(line.starts_with("copy") || line.starts_with("synchronize")) << line;
}
#endif

}  // namespace
}  // namespace tandem
