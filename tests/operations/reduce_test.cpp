// Properties of reductions and sorting that a table of PyTorch's values does not test: errors, ties, many numbers,
// threads.
#include <tandem/autograd/functions/sort.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "operations/device.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::testing {
namespace {

Array random(const Shape& shape, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> distribution;
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  for (float& v : values) v = static_cast<float>(distribution(generator));
  return Array::from(values, shape).to(device);
}

TEST(ReduceErrors, NameTheOperationAndTheRule) {
  const Tensor x(Array::empty({2, 3}, DType::f32, device)), none(Array::empty({0, 3}, DType::f32, device));
  const Tensor whole(ops::ones({2, 3}, DType::i64, device));
  EXPECT_ERROR(amax(none, {0}), "max of an empty array of shape (0, 3)");
  EXPECT_ERROR(max(none), "empty");
  EXPECT_ERROR(min(none, 0), "dimension 0 of an empty array of shape (0, 3)");
  EXPECT_ERROR(argmax(none), "argmax of an empty array");
  EXPECT_ERROR(norm(none, INFINITY), "norm of an empty array");
  EXPECT_EQ(amax(none, {1}).shape(), Shape{0});
  EXPECT_ERROR(sum(x, {0, -2}), "sum: dimension 0 occurs twice");
  EXPECT_ERROR(sum(x, {2}), "dimension 2 is out of range");
  EXPECT_ERROR(mean(whole), "mean: needs a floating dtype, got i64");
  EXPECT_ERROR(var(whole), "var: needs a floating dtype, got i64");
  EXPECT_ERROR(norm(whole), "norm: needs a floating dtype, got i64");
  EXPECT_ERROR(topk(x, 4), "topk: k = 4 is not between 0 and 3");
  EXPECT_ERROR(topk(x, -1), "k = -1");
  EXPECT_ERROR(sort(x, 2), "dimension 2");
  EXPECT_ERROR(cumsum(x, -3), "dimension -3");
}

TEST(Scan, OfAnExpandedArrayIsThatOfItsCopy) {
  for (const Shape& shape : {Shape{5, 7, 1, 300}, Shape{1, 7, 4, 300}, Shape{5, 7, 4, 1}, Shape{1, 1, 4, 300}}) {
    const Array x = random(shape).expand({5, 7, 4, 300}), copy = x.contiguous();
    for (int d = 0; d < 4; ++d)
      EXPECT_EQ(ops::cumsum(x, d).to_vector<float>(), ops::cumsum(copy, d).to_vector<float>()) << shape << d;
  }
}

#ifndef TANDEM_TABLE_ON_GPU
// On an emulated GPU, this test would take minutes. The next one tests the CPU's threads.
TEST(Reduce, OfManyNumbersIsRightInEveryDirection) {
  for (const Shape& shape : {Shape{100003}, Shape{3, 40009}, Shape{9001, 5}, Shape{801, 600}, Shape{7, 300, 40}}) {
    const Array a = random(shape).to(DType::f64);
    for (int d = 0; d < shape.ndim(); ++d) {
      // Computes the same in a different way: in f64, one by one, along a copy whose last dimension is d.
      const Array lines = a.transpose(d, -1).contiguous();
      const std::int64_t n = lines.dim(-1);
      const auto values = lines.to_vector<double>();
      const Array x = a.to(DType::f32);
      const auto flat = [&](const Array& y) { return y.unsqueeze(d).transpose(d, -1).to_vector<double>(); };
      const auto sums = flat(ops::reduce(Reduction::sum, x, {d}));
      const auto vars = flat(ops::reduce(reductions::Var{}, x, {d}));
      const auto norms = flat(ops::reduce(reductions::Norm{}, x, {d}));
      const auto logs = flat(ops::reduce(reductions::LogSumExp{}, x, {d}));
      const auto largest = ops::search(true, x, d);
      const auto maxima = flat(largest.values), places = flat(largest.indices);
      for (std::size_t o = 0; o < sums.size(); ++o) {
        const double* line = &values[o * static_cast<std::size_t>(n)];
        double sum = 0, squares = 0, exps = 0, m2 = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const double v = static_cast<float>(line[i]);
          sum += v;
          squares += v * v;
          exps += std::exp(v);
        }
        const std::int64_t first = std::max_element(line, line + n) - line;
        for (std::int64_t i = 0; i < n; ++i)
          m2 += std::pow(static_cast<float>(line[i]) - sum / static_cast<double>(n), 2);
        ASSERT_NEAR(sums[o], sum, 1e-6 * std::sqrt(squares * static_cast<double>(n))) << shape << ' ' << d;
        ASSERT_NEAR(norms[o], std::sqrt(squares), 2e-6 * std::sqrt(squares)) << shape << ' ' << d;
        ASSERT_NEAR(vars[o], m2 / static_cast<double>(n - 1), 2e-6 * m2 / static_cast<double>(n - 1))
            << shape << ' ' << d;
        ASSERT_NEAR(logs[o], std::log(exps), 2e-6 * std::abs(std::log(exps)) + 1e-6) << shape << ' ' << d;
        ASSERT_EQ(places[o], static_cast<double>(first)) << shape << ' ' << d;
        ASSERT_EQ(maxima[o], static_cast<float>(line[first])) << shape << ' ' << d;
      }
    }
  }
}

TEST(Reduce, DoesNotDependOnTheNumberOfThreads) {
  const Array a = random({700, 501});
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    std::vector<Array> results;
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}}) {
      results.push_back(ops::reduce(Reduction::sum, a, dims));
      results.push_back(ops::reduce(reductions::Var{}, a, dims));
      results.push_back(ops::reduce(reductions::LogSumExp{}, a, dims));
    }
    results.push_back(ops::argmax(a));
    results.push_back(ops::sort(a, 0).indices);
    return results;
  };
  const int before = omp_get_max_threads();
  const auto one = run(1), two = run(2);
  omp_set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) expect_same(one[i], two[i], "result " + std::to_string(i));
}
#endif

TEST(Reduce, VarianceFarFromZeroLosesNothing) {
  const Array shifted = ops::map(functors::Affine{1, 1e6}, random({4099}).to(DType::f64)).to(DType::f32);
  const double exact = ops::reduce(reductions::Var{}, shifted.to(DType::f64)).item();
  EXPECT_NEAR(ops::reduce(reductions::Var{}, shifted).item(), exact, 1e-6 * exact);
}

TEST(Sort, LongRowsOfEqualsKeepTheirOrder) {
  std::vector<std::int64_t> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i * 7919 % 13);
  std::vector<std::int64_t> expected(values.size());
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::f32, DType::bf16, DType::f64}) {
    for (const bool descending : {false, true}) {
      const auto sorted = ops::sort(Array::from(values, {3000}).to(dtype).to(device), 0, descending);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(), [&](std::int64_t a, std::int64_t b) {
        const auto x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
        return descending ? x > y : x < y;
      });
      EXPECT_EQ(sorted.indices.to_vector<std::int64_t>(), expected) << name_of(dtype) << descending;
      const auto top = ops::topk(Array::from(values, {3000}).to(dtype).to(device), 100, 0, descending);
      EXPECT_EQ(top.indices.to_vector<std::int64_t>(),
                std::vector<std::int64_t>(expected.begin(), expected.begin() + 100))
          << name_of(dtype) << descending;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
