#include <tandem/core/cpu/vector_math.h>

#include <gtest/gtest.h>

#include <array>

namespace tandem::cpu {
namespace {

template <class T>
class Simd : public ::testing::Test {};
using Numbers = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(Simd, Numbers);

// Whole numbers up to 40 are exact in all three types.
TYPED_TEST(Simd, loads_and_stores_some_lanes) {
  constexpr int L = float_lanes;
  std::array<TypeParam, 3 * L> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<TypeParam>(static_cast<float>(i));
  for (int count = 1; count <= L; ++count) {
    const vec<float, L> v = load_some<L>(numbers.data() + 3, count, -7.0f);
    for (int i = 0; i < L; ++i) EXPECT_EQ(v[i], i < count ? static_cast<float>(3 + i) : -7.0f) << count << ' ' << i;
    for (int first = 0; first + count <= L; ++first) {
      std::array<TypeParam, 3 * L> stored = numbers;
      store_some<L>(stored.data() + L, vec<float, L>{} - 7.0f, count, first);
      for (int i = 0; i < 3 * L; ++i)
        EXPECT_EQ(static_cast<float>(stored[static_cast<std::size_t>(i)]),
                  L <= i && i < L + count ? -7.0f : static_cast<float>(i))
            << count << ' ' << first << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace tandem::cpu
