// Conversions between f32 and the 16-bit types give bitwise identical results on the CPU and on a GPU, which has
// special instructions for them.
#include <tandem/core/array/array.h>
#include <tandem/core/base/half.h>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::gpu;

template <class Half>
void expect_same_conversions(DType dtype) {
  const Array narrow = Array::empty({1 << 16}, dtype);
  for (std::uint32_t i = 0; i < 1 << 16; ++i) narrow.data<Half>()[i].bits = static_cast<std::uint16_t>(i);
  const Array wide = narrow.to(DType::f32), there = narrow.to(gpu).to(DType::f32).to(Device{});
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const auto expected = std::bit_cast<std::uint32_t>(wide.data<float>()[i]);
    ASSERT_EQ(expected, std::bit_cast<std::uint32_t>(there.data<float>()[i])) << "bits " << i;
    // The number itself and its neighbours, and the halfway point to the next number with its neighbours.
    const std::uint32_t half_way = dtype == DType::bf16 ? 0x8000 : 0x1000;
    for (const std::uint32_t more : {0u, 1u, half_way - 1, half_way, half_way + 1, 0u - 1u})
      values.push_back(std::bit_cast<float>(expected + more));
  }
  // Numbers that are too small for f16, down to the smallest f32, or too large, up to the largest.
  for (std::uint32_t bits = 0; bits < 0x80000000u - 0x10001u; bits += 0x10001u) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  const Array from = Array::from(values, {static_cast<std::int64_t>(values.size())});
  const Array expected = from.to(dtype), found = from.to(gpu).to(dtype).to(Device{});
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(expected.data<Half>()[i].bits, found.data<Half>()[i].bits)
        << "of the bits " << std::bit_cast<std::uint32_t>(values[i]);
  }
}

TEST(CudaHalf, EveryNumberConvertsToTheSameBits) {
  expect_same_conversions<bfloat16>(DType::bf16);
  expect_same_conversions<float16>(DType::f16);
}

}  // namespace
}  // namespace tandem
