// Dtypes: the common dtype of two, and the rounding of 16-bit numbers.
#include <tandem/core/array/array.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cfenv>

#include "support/dtypes.h"

namespace tandem {
namespace {

using testing::all_dtypes;

TEST(DTypes, Promote) {
  for (const DType a : all_dtypes) {
    EXPECT_EQ(promote(a, a), a);
    for (const DType b : all_dtypes) EXPECT_EQ(promote(a, b), promote(b, a)) << a << b;
  }
  EXPECT_EQ(promote(DType::f32, DType::f64), DType::f64);
  EXPECT_EQ(promote(DType::f32, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::f16, DType::f64), DType::f64);
  EXPECT_EQ(promote(DType::bf16, DType::f16), DType::f32);
  EXPECT_EQ(promote(DType::bf16, DType::i64), DType::bf16);
  EXPECT_EQ(promote(DType::f16, DType::boolean), DType::f16);
  EXPECT_EQ(promote(DType::i64, DType::i32), DType::i64);
  EXPECT_EQ(promote(DType::i32, DType::u8), DType::i32);
  EXPECT_EQ(promote(DType::u8, DType::boolean), DType::u8);
}

// Rounds to 16 bits by definition: to the nearest representable number, and to the even one of two equally near ones.
// Numbers have `fraction_bits` explicit bits, and exponents of at least `min_exponent`. A number that exceeds `highest`
// by half a step or more becomes infinity.
double rounded(double value, int fraction_bits, int min_exponent, double highest) {
  const int exponent = value == 0 ? min_exponent : std::max(std::ilogb(value), min_exponent);
  const double step = std::ldexp(1.0, exponent - fraction_bits);
  const double result = std::nearbyint(value / step) * step;
  return std::abs(result) > highest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

// Returns every 16-bit value, the point halfway to the next one, and the neighbours in f32 of both.
template <class T>
std::vector<float> interesting() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T half;
    half.bits = static_cast<std::uint16_t>(bits);
    T next;
    next.bits = static_cast<std::uint16_t>(bits + 1);
    const float value = half, middle = static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2);
    for (const float v : {value, middle})
      for (const float w : {v, std::nextafter(v, -INFINITY), std::nextafter(v, INFINITY)}) values.push_back(w);
  }
  for (const float v : {65519.996f, 65520.0f, 3.4e38f, 3.3961775e38f, 1e-45f, 1e-40f, 2.9802322e-8f, 2.9802326e-8f}) {
    values.push_back(v);
    values.push_back(-v);
  }
  return values;
}

template <class T>
void check_rounding(int fraction_bits, int min_exponent, double highest) {
  for (const float value : interesting<T>()) {
    const float found = T(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(found));
      continue;
    }
    const double expected = std::isinf(value) ? value : rounded(value, fraction_bits, min_exponent, highest);
    ASSERT_EQ(found, static_cast<float>(expected)) << std::hexfloat << value;
    ASSERT_EQ(std::signbit(found), std::signbit(value)) << value;
  }
  // Representable values do not change.
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = half;
    if (std::isnan(value)) continue;
    ASSERT_EQ(T(value).bits, half.bits) << bits;
  }
}

TEST(DTypes, Bfloat16RoundsToNearestEven) { check_rounding<bfloat16>(7, -126, 0x1.fep127); }
TEST(DTypes, Float16RoundsToNearestEven) { check_rounding<float16>(10, -14, 65504); }

TEST(DTypes, HalvesMeanWhatTheirBitsSay) {
  const auto f16 = [](std::uint16_t bits) {
    float16 h;
    h.bits = bits;
    return static_cast<float>(h);
  };
  EXPECT_EQ(f16(0x3c00), 1.0f);
  EXPECT_EQ(f16(0xc000), -2.0f);
  EXPECT_EQ(f16(0x7bff), 65504.0f);
  EXPECT_EQ(f16(0x0001), 0x1p-24f);
  EXPECT_EQ(f16(0x03ff), 0x1.ff8p-15f);
  EXPECT_EQ(f16(0x0400), 0x1p-14f);
  EXPECT_EQ(f16(0x7c00), INFINITY);
  EXPECT_TRUE(std::isnan(f16(0x7c01)));
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(-INFINITY).bits, 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace tandem
