// The dtypes that a test goes through.
#pragma once

#include <tandem/core/base/dtype.h>

namespace tandem::testing {

inline constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                       DType::i64, DType::i32, DType::u8,   DType::boolean};
inline constexpr DType floating_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

}  // namespace tandem::testing
