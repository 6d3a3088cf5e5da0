// A tree merges the results of a kernel's blocks (core/cuda/block_tree.cuh). The tests use every number of blocks near
// the numbers at which the tree changes its shape.
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "conformance/compare.h"

#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

namespace tandem {
namespace {

using testing::gpu;
using testing::numbers;

// Whole numbers have the same sum in any order.
Array whole_numbers(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 31) - 11;
  return Array::from(values, shape);
}

std::string launches_since_clear() {
#ifdef TANDEM_EMULATED_CUDA
  std::string text;
  for (const auto& call : emulation::driver().log)
    if (call.starts_with("launch")) text += call + '\n';
  emulation::driver().log.clear();
  return text;
#else
  return {};
#endif
}

TEST(CudaBlockTree, ReducesAnyNumberOfRowsAndColumns) {
  for (const std::int64_t outputs : {1, 2, 10, 32, 33, 257})
    for (const std::int64_t count : {1, 7, 8, 512, 513, 4097, 8192}) {
      if (outputs * count > 70000) continue;
      const Array rows = whole_numbers({outputs, count}), columns = whole_numbers({count, outputs});
      for (const auto& [x, dim] : {std::pair(rows, 1), {columns, 0}}) {
        SCOPED_TRACE(::testing::Message() << x.shape() << " over " << dim);
        const Array there = x.to(gpu);
        EXPECT_EQ(ops::reduce(Reduction::sum, there, {dim}).to_vector<float>(),
                  ops::reduce(Reduction::sum, x, {dim}).to_vector<float>());
        EXPECT_EQ(ops::argmax(there, dim).to_vector<std::int64_t>(), ops::argmax(x, dim).to_vector<std::int64_t>());
      }
    }
}

// There are so many outputs that each output gets one warp.
TEST(CudaBlockTree, ReducesManyRowsByWarps) {
  const Array x = whole_numbers({8448, 513}), there = x.to(gpu);
  EXPECT_EQ(ops::reduce(Reduction::sum, there, {1}).to_vector<float>(),
            ops::reduce(Reduction::sum, x, {1}).to_vector<float>());
}

// From one block to 5 x 5 and more. The second round would fail if counters were not reset.
TEST(CudaBlockTree, SumsOverAnyNumberOfBlocks) {
  constexpr std::int64_t of_block = 256 * 16;
  for (const std::int64_t blocks : {1, 2, 3, 4, 5, 9, 10, 17})
    for (int round = 0; round < 2; ++round) {
      const Array x = whole_numbers({blocks * of_block}), there = x.to(gpu);
      launches_since_clear();
      EXPECT_EQ(ops::reduce(Reduction::sum, there).item(), ops::reduce(Reduction::sum, x).item()) << blocks;
#ifdef TANDEM_EMULATED_CUDA
      EXPECT_EQ(launches_since_clear(), "launch " + std::to_string(blocks) + " x 256\n");
#endif
    }
}

TEST(CudaBlockTree, GivesTheSameBitsEachTime) {
  const Array x = numbers({70001}, 3).to(gpu), columns = numbers({4001, 17}, 4).to(gpu);
  const double sum = ops::reduce(Reduction::sum, x).item();
  const auto variances = ops::reduce({reductions::Var{}}, columns, {0}).to_vector<float>();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ops::reduce(Reduction::sum, x).item(), sum);
    EXPECT_EQ(ops::reduce({reductions::Var{}}, columns, {0}).to_vector<float>(), variances);
  }
}

// With four channels, a block has 1,024 rows.
TEST(CudaBlockTree, BatchNormOverAnyNumberOfBlocks) {
  for (const std::int64_t rows : {1, 1024, 1025, 2049, 4097, 10241})
    for (int round = 0; round < 2; ++round) {
      const Array x = whole_numbers({rows, 4, 1, 1});
      const auto expected = ops::batch_norm_stats(x), found = ops::batch_norm_stats(x.to(gpu));
      testing::expect_same(expected.mean, found.mean, 1e-5);
      testing::expect_same(expected.m2, found.m2, 1e-5);
      EXPECT_EQ(found.count.item(), static_cast<double>(rows));
      const BatchNormAffine affine{found.mean, ops::ones({4}, DType::f32, gpu), ops::ones({4}, DType::f32, gpu),
                                   ops::zeros({4}, DType::f32, gpu)};
      const auto sums = ops::batch_norm_grad_reduce(x.to(gpu), affine, {}, x.to(gpu));
      EXPECT_EQ(sums.dy.to_vector<float>(), ops::reduce(Reduction::sum, x, {0, 2, 3}).to_vector<float>()) << rows;
      testing::expect_same(expected.m2, sums.dy_xhat, 1e-5);
    }
}

TEST(CudaBlockTree, LossesOverAnyNumberOfBlocks) {
  for (const std::int64_t rows : {257, 2001})
    for (const Shape& shape : {Shape{rows, 3}, {1, 3, rows}}) {
      const Array x = numbers(shape, 5);
      std::vector<std::int64_t> classes;
      for (std::int64_t i = 0; i < rows; ++i) classes.push_back(i % 5 == 0 ? -100 : i % 3);
      const Array target = Array::from(classes, shape.ndim() == 2 ? Shape{rows} : Shape{1, rows});
      const auto expected = ops::cross_entropy(x, target, {}, {}),
                 found = ops::cross_entropy(x.to(gpu), target.to(gpu), {}, {});
      testing::expect_same(expected.loss, found.loss, 1e-5);
      EXPECT_EQ(expected.total_weight.item(), found.total_weight.item());
      const Array loss = ops::pair_loss(losses::Squared{}, x, ops::zeros(shape), 1, "mse_loss");
      testing::expect_same(loss, ops::pair_loss(losses::Squared{}, x.to(gpu), ops::zeros(shape).to(gpu), 1, "mse_loss"),
                           1e-5);
    }
}

// There are more segments than one launch takes. The last block of the last launch writes the norm.
TEST(CudaBlockTree, NormsOverSeveralLaunches) {
  for (const std::int64_t segments : {1, 2, 171}) {
    const Array x = whole_numbers({segments * 2100}), there = x.to(gpu);
    for (const auto& array : {x, there}) synchronize(array.device());
    const auto norm = [&](const Array& all) {
      std::vector<Segment> some;
      for (std::int64_t i = 0; i < segments; ++i)
        some.push_back({static_cast<const float*>(all.raw()) + i * 2100, 2047 + i % 3});
      const Array result = Array::empty({}, DType::f32, all.device());
      backend(all.device()).segments_norm(some, 2, result);
      return result.item();
    };
    EXPECT_EQ(norm(there), norm(x)) << segments;
    EXPECT_EQ(norm(there), norm(x)) << segments;
  }
}

}  // namespace
}  // namespace tandem
