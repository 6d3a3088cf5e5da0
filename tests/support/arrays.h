// Makes arrays for tests, and compares them.
#pragma once

#include <tandem/core/array/array.h>

#include <support/dtypes.h>

#include <string>
#include <vector>

namespace tandem::testing {

Array array_of(const std::vector<float>& values, const Shape& shape);
Array array_of(const std::vector<float>& values);

// The numbers 0, 1, 2, ... in row-major order.
Array counting(const Shape& shape, DType dtype = DType::f32);

// A view with the same numbers, in which no two neighbours are adjacent in memory. Every dimension is a slice of a
// larger one, and the dimensions are in reverse order in memory. The memory around the numbers holds NaN, or 255 for a
// dtype without NaN.
Array strided(const Array& array);

// Expects that both arrays have the same shape. Also expects that no element is further from the expected one than
// `tolerance` times the largest expected magnitude.
void expect_close(const Array& expected, const Array& found, double tolerance, const std::string& what);

// Expects that both arrays have the same shape, dtype and bits.
void expect_same(const Array& expected, const Array& found, const std::string& what);

// The RMS of the difference, relative to the RMS of `expected`.
double relative_rms(const Array& found, const Array& expected);

}  // namespace tandem::testing
