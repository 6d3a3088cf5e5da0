// Helpers of the GPU tests: random numbers, and the allowed difference from the CPU's result.
#pragma once

#include <tandem/core/array/array.h>

#include <support/dtypes.h>

#ifdef TANDEM_EMULATED_CUDA
#include <emulation/libraries.h>
#endif

namespace tandem::testing {

inline const Device gpu = Device::cuda(0);

// While this object exists, the emulated libraries accept plans that are made while a step is recorded.
struct PlansWhileRecording {
#ifdef TANDEM_EMULATED_CUDA
  PlansWhileRecording() { emulation::libraries().plan_while_recording = true; }
  ~PlansWhileRecording() { emulation::libraries().plan_while_recording = false; }
#endif
};

// Normally distributed numbers. Integers are rounded, and small enough for sums and products in u8.
Array numbers(const Shape& shape, unsigned seed = 1, DType dtype = DType::f32);

// Expects that each element is within tolerance * max(floor, |expected|). Infinities and NaN match only themselves.
void expect_same(const Array& expected, const Array& found, double tolerance, double floor = 1);

// Expects that the arrays are equal within one rounding of the dtype.
void expect_same(const Array& expected, const Array& found);

}  // namespace tandem::testing
