// Helpers of the GPU tests: random numbers, and the allowed difference from the CPU's result.
#pragma once

#include <tandem/core/array/array.h>

#include <gtest/gtest.h>
#include <support/dtypes.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

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
inline Array numbers(const Shape& shape, unsigned seed = 1, DType dtype = DType::f32) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(shape.product()));
  for (double& v : values) {
    v = normal(random);
    if (!is_floating(dtype)) v = std::round(3 * v);
    if (dtype == DType::u8) v = std::abs(v);
    if (dtype == DType::boolean) v = v > 0;
  }
  return Array::from(values, shape).to(dtype);
}

// Expects that each element is within tolerance * max(floor, |expected|). Infinities and NaN match only themselves.
inline void expect_same(const Array& expected, const Array& found, double tolerance, double floor = 1) {
  ASSERT_EQ(expected.shape(), found.shape());
  ASSERT_EQ(expected.dtype(), found.dtype());
  const auto e = expected.to_vector<double>(), f = found.to_vector<double>();
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (e[i] == f[i] || (std::isnan(e[i]) && std::isnan(f[i]))) continue;
    ASSERT_LE(std::abs(e[i] - f[i]), tolerance * std::max(floor, std::abs(e[i])))
        << "element " << i << ": the CPU has " << e[i] << ", the GPU " << f[i];
  }
}

// Expects that the arrays are equal within one rounding of the dtype.
inline void expect_same(const Array& expected, const Array& found) {
  expect_same(expected, found, machine_epsilon(expected.dtype()));
}

}  // namespace tandem::testing
