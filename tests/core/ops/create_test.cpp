// New arrays. Golden values: PyTorch 2.15 on the CPU, as digests of all numbers drawn in a row after manual_seed(7).
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <numeric>

#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::Sha256;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

// torch.randn(n) and torch.rand(n) for n = 1 ... 40 and 1000: each way in which blocks can end, and the second number
// of a pair that waits for the next call.
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
