#include "conformance/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace tandem::testing {

Array numbers(const Shape& shape, unsigned seed, DType dtype) {
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

void expect_same(const Array& expected, const Array& found, double tolerance, double floor) {
  ASSERT_EQ(expected.shape(), found.shape());
  ASSERT_EQ(expected.dtype(), found.dtype());
  const auto e = expected.to_vector<double>(), f = found.to_vector<double>();
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (e[i] == f[i] || (std::isnan(e[i]) && std::isnan(f[i]))) continue;
    ASSERT_LE(std::abs(e[i] - f[i]), tolerance * std::max(floor, std::abs(e[i])))
        << "element " << i << ": the CPU has " << e[i] << ", the GPU " << f[i];
  }
}

void expect_same(const Array& expected, const Array& found) {
  expect_same(expected, found, machine_epsilon(expected.dtype()));
}

}  // namespace tandem::testing
