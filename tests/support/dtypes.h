// The dtypes that tests use.
#pragma once

#include <tandem/core/base/dtype.h>

namespace tandem::testing {

inline constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                       DType::i64, DType::i32, DType::u8,   DType::boolean};
inline constexpr DType floating_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// The distance from 1 to the next larger number. Two results that differ by one rounding have this relative distance.
constexpr double machine_epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0;
  }
}

}  // namespace tandem::testing
