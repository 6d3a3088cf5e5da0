// New arrays. Golden values: PyTorch 2.15 on the CPU, as digests of all numbers drawn in a row after manual_seed(7).
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::Sha256;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

// torch.randn(n) and torch.rand(n) for n = 1 ... 40 and 1000. The sizes cover each way in which a block can end, and a
// pair whose second number waits for the next call.
template <class T, class F>
std::string digest_of_sizes(F make) {
  manual_seed(7);
  Sha256 digest;
  std::vector<std::int64_t> sizes(40);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.push_back(1000);
  for (const std::int64_t n : sizes) {
    const Array array = make(Shape{n}, dtype_of<T>());
    digest.add(std::span<const T>(array.data<T>(), n));
  }
  return digest.hex();
}

TEST(Create, RandomNumbersArePyTorchs) {
  const auto uniform = [](const Shape& shape, DType dtype) { return rand(shape, dtype); };
  EXPECT_EQ(digest_of_sizes<float>(uniform), "711b68d3efb92749286e6f3a4c5b2b1bf2c0b4755e650105433df3f9cfa698b8");
  EXPECT_EQ(digest_of_sizes<double>(uniform), "1be30b203f7326fd92d1a48297bbc41799c4869399940f25eff36490ab558fd1");
}

TEST(Create, NormalNumbersArePyTorchs) {
  const auto normal = [](const Shape& shape, DType dtype) { return randn(shape, dtype); };
  EXPECT_EQ(digest_of_sizes<float>(normal), "d179d60a7d7c4ec3107a4232ab3e4dd1b3584f3501a7889900798362b63eba82");
  EXPECT_EQ(digest_of_sizes<double>(normal), "7211c1951beb7cacf6a74d8ba744dcc727a9fd781a26e7779f49709a33324d57");
}

// torch.normal(1.5, 0.25, (n,))
TEST(Create, NormalNumbersOfAMeanArePyTorchs) {
  const auto of_mean = [](const Shape& shape, DType dtype) { return normal(1.5, 0.25, shape, dtype); };
  EXPECT_EQ(digest_of_sizes<float>(of_mean), "76ed58e6a32de016b42afdec1f0c73718387ca106e82a656d36ca138887ae75a");
  EXPECT_EQ(digest_of_sizes<double>(of_mean), "69dcbc3d510c1f7285c0844015ef66c0c20833eb16f5d75350e278e93ef9748c");
}

// torch.bernoulli(torch.arange(n) / n)
TEST(Create, BernoulliDrawsArePyTorchs) {
  const auto draws = [](const Shape& shape, DType dtype) {
    Array p = Array::empty(shape, dtype);
    for (std::int64_t i = 0; i < p.numel(); ++i) {
      if (dtype == DType::f64) p.data<double>()[i] = static_cast<double>(i) / static_cast<double>(p.numel());
      else p.data<float>()[i] = static_cast<float>(i) / static_cast<float>(p.numel());
    }
    return ops::bernoulli(p);
  };
  EXPECT_EQ(digest_of_sizes<float>(draws), "0babc77c35c826a5329ed50f3b21a4de8f5dfac67e08635f9bdda42a8fcaa689");
  EXPECT_EQ(digest_of_sizes<double>(draws), "b1961c423e7e7f1a87ae1c96dac7077970b36623073f386b7bce08f35f58529d");
  EXPECT_ERROR(ops::bernoulli(Array::from(std::vector<float>{0.5, 1.5}, {2})), "bernoulli", "[0, 1]", "1.5");
  EXPECT_ERROR(ops::bernoulli(Array::from(std::vector<float>{std::nanf("")}, {1})), "bernoulli", "nan");
  EXPECT_ERROR(ops::bernoulli(zeros({2}, DType::i64)), "bernoulli", "floating");
  EXPECT_EQ(ops::bernoulli(ones({2, 3}, DType::bf16)).dtype(), DType::bf16);
}

// Compares with torch.multinomial(w, 50, replacement=True), where w has two rows of n weights.
TEST(Create, DrawsWithReplacementArePyTorchs) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    manual_seed(7);
    Sha256 digest;
    for (std::int64_t n = 1; n <= 41; ++n) {
      const std::int64_t size = n > 40 ? 1000 : n;
      std::vector<double> weights(static_cast<std::size_t>(2 * size));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 7) + 0.5;
      const Array drawn = ops::multinomial(Array::from(weights, {2, size}).to(dtype), 50, true);
      ASSERT_EQ(drawn.shape(), (Shape{2, 50}));
      digest.add(std::span<const std::int64_t>(drawn.data<std::int64_t>(), 100));
    }
    EXPECT_EQ(digest.hex(), "78783298b9a7ad8c8291f9ca8e2cfede8b435bb87e236958a512f667331a7b93");
  }
}

// Counts how often each of four positions comes first and second, in many rows.
TEST(Create, DrawsFollowTheWeights) {
  manual_seed(7);
  constexpr std::int64_t rows = 20000;
  const std::vector<double> weights = {1, 0, 2, 5};
  const Array all = Array::from(weights, {1, 4}).expand({rows, 4}).to(DType::f32);
  const auto shares = [](const Array& drawn, std::int64_t column) {
    std::vector<double> counts(4);
    const auto positions = drawn.select(1, column).contiguous().to_vector<std::int64_t>();
    for (const std::int64_t p : positions) counts.at(static_cast<std::size_t>(p)) += 1.0 / rows;
    return counts;
  };
  for (const bool replacement : {false, true}) {
    const auto once = shares(ops::multinomial(all, 1, replacement), 0);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(once[i], weights[i] / 8, 0.015) << i;
  }
  const Array three = ops::multinomial(all, 3);
  const auto first = shares(three, 0), second = shares(three, 1);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(first[i], weights[i] / 8, 0.015) << i;
  // The second position is i if the first one was another position j, and i is drawn from the remaining positions.
  for (const int i : {0, 2, 3}) {
    double chance = 0;
    for (const int j : {0, 2, 3})
      if (j != i) chance += weights[j] / 8 * weights[i] / (8 - weights[j]);
    EXPECT_NEAR(second[i], chance, 0.015) << i;
  }
  for (std::int64_t row = 0; row < 100; ++row) {
    auto positions = three.select(0, row).to_vector<std::int64_t>();
    std::sort(positions.begin(), positions.end());
    EXPECT_EQ(positions, (Integers{0, 2, 3}));
  }
}

TEST(Create, WhatCannotBeDrawn) {
  const auto weights = [](const std::vector<float>& values) {
    return Array::from(values, {static_cast<std::int64_t>(values.size())});
  };
  EXPECT_ERROR(ops::multinomial(weights({1, -1}), 1), "multinomial", "not negative", "-1");
  EXPECT_ERROR(ops::multinomial(weights({1, std::nanf("")}), 1), "multinomial", "nan");
  EXPECT_ERROR(ops::multinomial(weights({0, 0}), 1), "multinomial", "row 0", "no weight above 0");
  EXPECT_ERROR(ops::multinomial(weights({1, 0, 3}), 3), "multinomial", "3 draws", "2 weights above 0");
  EXPECT_ERROR(ops::multinomial(weights({1}), 0), "multinomial", "positive", "0");
  EXPECT_ERROR(ops::multinomial(zeros({2, 2, 2}), 1), "multinomial", "(2, 2, 2)");
  EXPECT_ERROR(ops::multinomial(zeros({2, 0}), 1), "multinomial", "(2, 0)");
  EXPECT_ERROR(ops::multinomial(ones({2}, DType::i64), 1), "multinomial", "i64");
  EXPECT_ERROR(ops::multinomial(weights({3e38f, 3e38f}), 1), "multinomial", "sum", "not finite");
  EXPECT_ERROR(ops::multinomial(ones({(1 << 24) + 1}), 1), "multinomial", "16777216", "16777217");
  EXPECT_ERROR(normal(0, -1, {2}), "normal", "negative", "-1");
}

TEST(Create, RandomIntegersArePyTorchs) {
  manual_seed(7);
  constexpr std::int64_t one = 1;
  EXPECT_EQ(randint(0, 10, {3}).to_vector<std::int64_t>(), (Integers{5, 2, 1}));
  EXPECT_EQ(randint(0, one << 25, {3}).to_vector<std::int64_t>(), (Integers{27798006, 3905091, 7131347}));
  EXPECT_EQ(randint(0, one << 31, {3}).to_vector<std::int64_t>(), (Integers{1956722279, 1322904761, 1133316631}));
  EXPECT_EQ(randint(0, (one << 32) - 1, {3}).to_vector<std::int64_t>(), (Integers{2524856225, 2110647192, 1221271138}));
  EXPECT_EQ(randint(0, one << 32, {3}).to_vector<std::int64_t>(), (Integers{2266732518, 3731473840, 1420943751}));
  manual_seed(7);
  Sha256 digest;
  for (const std::int64_t n : {1, 2, 10, 100}) {
    const Array order = randperm(n);
    digest.add(std::span<const std::int64_t>(order.data<std::int64_t>(), n));
  }
  EXPECT_EQ(digest.hex(), "3f359bc86d6fd8308a3281872fef27594fb1c418ab4e3e0942ced71ae2864831");
}

TEST(Create, TheStateOfAGeneratorHoldsTheSecondNumberOfAPair) {
  Generator generator(3);
  generator.normal();
  Generator other;
  other.set_state(generator.state());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.normal(), generator.normal());
  EXPECT_EQ(other.state(), generator.state());
  EXPECT_ERROR(other.set_state(generator.state() + " more"), "generator state");
}

TEST(Create, Ranges) {
  EXPECT_EQ(arange(4).to_vector<std::int64_t>(), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(arange(4).dtype(), DType::i64);
  EXPECT_EQ(arange(5, 1, -2).to_vector<std::int64_t>(), (Integers{5, 3}));
  EXPECT_EQ(arange(1, 2.5, 0.5).to_vector<float>(), (Floats{1, 1.5f, 2}));
  EXPECT_EQ(arange(1, 2.5, 0.5).dtype(), DType::f32);
  EXPECT_EQ(arange(3, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_EQ(linspace(-1, 1, 5).to_vector<float>(), (Floats{-1, -0.5f, 0, 0.5f, 1}));
  EXPECT_EQ(linspace(2, 9, 1).to_vector<float>(), (Floats{2}));
  EXPECT_EQ(linspace(2, 9, 0).numel(), 0);
  EXPECT_EQ(eye(2, 3).to_vector<float>(), (Floats{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(3, 2).to_vector<float>(), (Floats{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
}

TEST(Create, Likes) {
  const Array image = Array::empty_channels_last({2, 3, 4, 5}, DType::bf16);
  EXPECT_TRUE(zeros_like(image).is_channels_last());
  EXPECT_EQ(ones_like(image).dtype(), DType::bf16);
  EXPECT_EQ(full_like(image, 7, DType::i32).to_vector<float>(), Floats(120, 7));
  manual_seed(1);
  const Array drawn = randn_like(image, DType::f32);
  EXPECT_TRUE(drawn.is_channels_last());
  manual_seed(1);
  EXPECT_EQ(drawn.to_vector<float>(), randn({2, 3, 4, 5}).to_vector<float>());
}

TEST(Create, Errors) {
  EXPECT_ERROR(arange(1, 5, 0), "arange", "step");
  EXPECT_ERROR(arange(1, 5, -1), "arange", "-1");
  EXPECT_ERROR(arange(1e300), "arange", "memory");
  EXPECT_ERROR(linspace(0, 1, -2), "linspace", "-2");
  EXPECT_ERROR(zeros({2, -1}), "(2, -1)", "negative");
  EXPECT_ERROR(rand({2}, DType::i64), "rand", "i64");
  EXPECT_ERROR(randint(3, 3, {2}), "randint", "[3, 3)");
}

}  // namespace
}  // namespace tandem
