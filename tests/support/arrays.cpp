#include <support/arrays.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace tandem::testing {

Array array_of(const std::vector<float>& values, const Shape& shape) { return Array::from(values, shape); }

Array array_of(const std::vector<float>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}

Array counting(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.product()));
  std::iota(values.begin(), values.end(), 0.0);
  return Array::from(values, shape).to(dtype);
}

Array strided(const Array& array) {
  Shape larger;
  Dims reversed;
  for (int i = array.ndim() - 1; i >= 0; --i) {
    larger.push_back(array.shape()[i] + 2);
    reversed.push_back(i);
  }
  larger.push_back(3);
  Array view = Array::empty(larger, array.dtype(), array.device());
  view.fill(is_floating(array.dtype()) ? std::numeric_limits<double>::quiet_NaN() : 255);
  for (int i = 0; i < array.ndim(); ++i) view = view.slice(i, 1, larger[i] - 1);
  view = view.select(-1, 1).permute(reversed);
  view.copy_from(array);
  return view;
}

void expect_close(const Array& expected, const Array& found, double tolerance, const std::string& what) {
  ASSERT_TRUE(found.defined()) << what << " is undefined";
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto want = expected.to_vector<double>(), have = found.to_vector<double>();
  double scale = 1e-3;
  for (const double v : want)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool close = std::isfinite(want[i]) ? std::abs(have[i] - want[i]) <= tolerance * scale
                                              : have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i]));
    ASSERT_TRUE(close) << what << ", element " << i << ": " << have[i] << ", expected " << want[i] << " within "
                       << tolerance * scale;
  }
}

void expect_same(const Array& expected, const Array& found, const std::string& what) {
  ASSERT_TRUE(found.defined()) << what << " is undefined";
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  if (expected.numel() == 0) return;
  EXPECT_EQ(std::memcmp(expected.contiguous().raw(), found.contiguous().raw(), expected.bytes()), 0)
      << what << ": " << found << ", expected " << expected;
}

double relative_rms(const Array& found, const Array& expected) {
  const auto f = found.to(DType::f64).contiguous().to_vector<double>(),
             e = expected.to(DType::f64).contiguous().to_vector<double>();
  double difference = 0, sum = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    difference += (f[i] - e[i]) * (f[i] - e[i]);
    sum += e[i] * e[i];
  }
  return std::sqrt(difference / sum);
}

}  // namespace tandem::testing
