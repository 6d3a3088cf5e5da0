// The golden values are from PyTorch 2.15 on the CPU, and for Philox from the known-answer vectors of Random123.
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::sha256_of;
using Indices = std::vector<std::int64_t>;

TEST(Random, EngineIsTheStandardMt19937) {
  Generator generator(5489);
  std::uint32_t last = 0;
  for (int i = 0; i < 10000; ++i) last = generator.next_u32();
  EXPECT_EQ(last, 4123659995u);
}

TEST(Random, OnlyTheLower32BitsOfTheSeedCount) {
  EXPECT_EQ(Generator(7).next_u32(), Generator(7 + (std::uint64_t{1} << 32)).next_u32());
  EXPECT_NE(Generator(7).next_u32(), Generator(8).next_u32());
}

TEST(Random, U64TakesTheHighWordFirst) {
  Generator words(3);
  const std::uint64_t high = words.next_u32();
  const std::uint64_t low = words.next_u32();
  EXPECT_EQ(Generator(3).next_u64(), high << 32 | low);
}

TEST(Random, UniformFloatEqualsPyTorch) {
  Generator zero(0);
  for (const float expected : {.4962566f, .7682218f, .0884774f, .1320305f}) {
    EXPECT_NEAR(zero.uniform(0.0f, 1.0f), expected, 1e-7f);
  }
  // torch.manual_seed(s); torch.empty(1000).uniform_(-0.3, 0.7)
  const char* golden[] = {"4eeb708ef116157467ec59d4fd0a19f53e9f0df609f31da171866ff3daff7865",
                          "d271e8096596c9160291405680df9efe2f4060031cff7c9c3468c35dc6f3504e"};
  for (const std::uint64_t seed : {0u, 1u}) {
    Generator generator(seed);
    std::vector<float> values(1000);
    for (auto& value : values) value = generator.uniform(-0.3f, 0.7f);
    EXPECT_EQ(sha256_of<float>(values), golden[seed]) << "seed " << seed;
  }
}

TEST(Random, UniformDoubleEqualsPyTorch) {
  // torch.manual_seed(s); torch.empty(1000, dtype=torch.float64).uniform_(-0.3, 0.7)
  const char* golden[] = {"033515fee45f7492d1d9d11689f8b8f032fc14ff0dcced068c1900267edd6440",
                          "e2b83c283ee4f3dff5e6b99300f1df3d1a331b5e163621d8547a674417c2a00a"};
  for (const std::uint64_t seed : {0u, 1u}) {
    Generator generator(seed);
    std::vector<double> values(1000);
    for (auto& value : values) value = generator.uniform(-0.3, 0.7);
    EXPECT_EQ(sha256_of<double>(values), golden[seed]) << "seed " << seed;
  }
}

// Draws the weights and then the bias, as kaiming_uniform_(a=sqrt(5)) and reset_parameters do.
std::string initial_weights(std::uint64_t seed, int fan_in, int outputs) {
  Generator generator(seed);
  std::vector<float> values;
  const double gain = std::sqrt(2.0 / (1.0 + 5.0));
  const auto weight_bound = static_cast<float>(std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in))));
  for (int i = 0; i < outputs * fan_in; ++i) values.push_back(generator.uniform(-weight_bound, weight_bound));
  const auto bias_bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)));
  for (int i = 0; i < outputs; ++i) values.push_back(generator.uniform(-bias_bound, bias_bound));
  return sha256_of<float>(values);
}

TEST(Random, InitialWeightsEqualPyTorch) {
  // torch.manual_seed(s); Linear(784, 10) and Conv2d(1, 16, 5): the bytes of weight, then bias
  EXPECT_EQ(initial_weights(0, 784, 10), "a02bc35110b82d97ec101bedec13889ba736e616b363f8c8204453c6042ec53f");
  EXPECT_EQ(initial_weights(1, 784, 10), "b5e8804615b83c3550ba7649ee889b7c710cc091fddcb75e99e3b648fa1d47f0");
  EXPECT_EQ(initial_weights(0, 25, 16), "df6873d62df733886d07c9390d5fce6e363d12ba56b6917c6632742001cbb0c4");
  EXPECT_EQ(initial_weights(1, 25, 16), "5b126f5ffa2401b33c4a72980f25da2e45e3e25e00e3ee3189e65865bc3b1ac5");
}

TEST(Random, PermutationEqualsPyTorch) {
  EXPECT_EQ(Generator(0).permutation(10), (Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(Generator(1).permutation(10), (Indices{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
  EXPECT_EQ(Generator(2).permutation(10), (Indices{8, 7, 1, 5, 6, 9, 0, 4, 2, 3}));
  EXPECT_EQ(Generator(42).permutation(10), (Indices{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(sha256_of<std::int64_t>(Generator(0).permutation(60000)),
            "4c226c41bdd65c9e11fe47eba8358cefb5c375b9699b1c912586a2125168af52");
  EXPECT_EQ(sha256_of<std::int64_t>(Generator(1).permutation(60000)),
            "1e8385d7899b4c8f2e9f55480fc4c1775cc691c5170f3cf7aa1f43b9c8bc6e0a");
}

TEST(Random, PermutationOfFewOrNone) {
  EXPECT_TRUE(Generator(0).permutation(0).empty());
  EXPECT_EQ(Generator(0).permutation(1), Indices{0});
  EXPECT_ERROR(Generator(0).permutation(-1), "must not be negative", "-1");
}

TEST(Random, StateGoesOnWhereItWasTaken) {
  Generator generator(11);
  for (int i = 0; i < 1000; ++i) generator.next_u32();
  const std::string state = generator.state();
  const Indices expected = generator.permutation(1000);
  Generator other(12);
  other.set_state(state);
  EXPECT_EQ(other.state(), state);
  EXPECT_EQ(other.permutation(1000), expected);
}

TEST(Random, StateThatIsNoneIsAnErrorAndChangesNothing) {
  Generator generator(11);
  const std::string state = generator.state();
  EXPECT_ERROR(generator.set_state(""), "expected \"mt19937\"", "0 numbers");
  EXPECT_ERROR(generator.set_state("philox 1 2 3"), "expected \"mt19937\"", "3 numbers");
  EXPECT_ERROR(generator.set_state(state.substr(0, state.size() / 2)), "expected \"mt19937\" and 625 numbers");
  EXPECT_ERROR(generator.set_state(state + " 1"), "expected \"mt19937\"");
  EXPECT_ERROR(generator.set_state(state + "x"), "expected \"mt19937\"");
  EXPECT_ERROR(generator.set_state(state + "9"), "number 624 is 6249", "at most 624");
  EXPECT_ERROR(generator.set_state("mt19937 4294967296" + state.substr(state.find(' ', 8))), "number 0 is 4294967296");
  EXPECT_EQ(generator.state(), state);
}

TEST(Random, DefaultGeneratorBelongsToTheThread) {
  manual_seed(5);
  const auto expected = Generator(5).next_u32();
  std::thread([] {
    manual_seed(6);
    default_generator().next_u32();
  }).join();
  EXPECT_EQ(default_generator().next_u32(), expected);
}

TEST(Random, ThreadsThatSetNoSeedDrawDifferentNumbers) {
  std::set<std::uint64_t> drawn = {Generator(0).next_u64()};  // the main thread's first number
  for (int i = 0; i < 8; ++i) std::thread([&] { drawn.insert(default_generator().next_u64()); }).join();
  EXPECT_EQ(drawn.size(), 9);
}

TEST(Random, PhiloxKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace tandem
