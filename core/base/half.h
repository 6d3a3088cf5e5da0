// bfloat16 and float16: 16-bit storage types. Arithmetic on them uses float. A GPU converts with its own instructions,
// except for NaN: these instructions would lose its sign and payload, but all devices must produce the same bits.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif

namespace tandem {

// The upper half of an IEEE 754 binary32: 8 exponent bits, 7 fraction bits. Rounds to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  TANDEM_HOST_DEVICE explicit bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    if (is_nan) bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
#else
    bits = static_cast<std::uint16_t>(is_nan ? (u >> 16) | 0x0040u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
  }
  TANDEM_HOST_DEVICE operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE 754 binary16: 5 exponent bits, 10 fraction bits. Rounds to nearest, ties to even.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  TANDEM_HOST_DEVICE explicit float16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    if (magnitude > 0x7f800000u) bits = static_cast<std::uint16_t>(sign | 0x7e00u);
#else
    std::uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;  // NaN
    } else if (magnitude >= 0x477ff000u) {
      half = 0x7c00u;  // rounds to infinity
    } else if (magnitude >= 0x38800000u) {
      const std::uint32_t rebiased = magnitude - 0x38000000u;
      half = (rebiased + 0x0fffu + ((rebiased >> 13) & 1u)) >> 13;
    } else {  // subnormal: adding 0.5f aligns the fraction bits and rounds them
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(sign | half);
#endif
  }
  TANDEM_HOST_DEVICE operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -subnormal : subnormal;
#endif
  }
};

}  // namespace tandem
