#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/reduce.h>

#include <cmath>
#include <sstream>

namespace tandem {

namespace {

thread_local const DetectAnomaly* innermost = nullptr;

// Returns the position of an element in an array of `shape`. `index` counts the elements in row-major order.
Dims position_of(std::int64_t index, const Shape& shape) {
  Dims position = shape;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    position[i] = index % shape[i];
    index /= shape[i];
  }
  return position;
}

}  // namespace

DetectAnomaly::DetectAnomaly(const DetectAnomalyOptions& options) : options(options), innermost_(innermost, this) {}

bool autograd::searches_anomalies() { return innermost != nullptr; }

std::string autograd::anomaly_in(const Array& array) {
  if (!innermost || !array.defined() || !is_floating(array.dtype()) || array.numel() == 0) return "";
  const bool infinities = innermost->options.infinities;
  const Array bad = infinities ? logical_not(isfinite(array)) : isnan(array);
  const auto count = static_cast<std::int64_t>(count_nonzero(bad).item());
  if (count == 0) return "";
  const Dims position = position_of(static_cast<std::int64_t>(argmax(bad.to(DType::u8)).item()), array.shape());
  Array first = array;
  for (const std::int64_t i : position) first = first.select(0, i);
  const double number = first.item();
  std::ostringstream text;
  text << count << " of " << array.numel() << (count == 1 ? " numbers is " : " numbers are ")
       << (infinities ? "not finite" : "NaN") << ", the first is " << (std::isnan(number) ? std::abs(number) : number)
       << " at " << position;
  return std::move(text).str();
}

}  // namespace tandem
