// DetectAnomaly finds the first operation whose result has a NaN or an infinity.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/temporarily.h>

#include <string>

namespace tandem {

struct DetectAnomalyOptions {
  bool infinities = true;  // false: infinities are allowed, as in attention masks, and only NaN is an Error
};

// While a DetectAnomaly lives, this thread checks the result of every operation and every gradient of a backward pass.
// The first NaN or infinity throws an Error. The Error names the operation, the number, its position, and the module
// whose forward() called the operation: "in head (Linear)".
//
//   const DetectAnomaly detect;
//   criterion(model(x), y).backward();
//
// Errors in a gradient name the module only if the DetectAnomaly also lived during the forward pass. Each check waits
// for the device and reads all numbers, so use it to find a bug, not in normal training. A recorded step can't contain
// one.
class DetectAnomaly {
 public:
  [[nodiscard]] explicit DetectAnomaly(const DetectAnomalyOptions& options = {});

  const DetectAnomalyOptions options;

 private:
  Temporarily<const DetectAnomaly*> innermost_;
};

namespace autograd {

// For operations and the engine. searches_anomalies() returns whether a DetectAnomaly lives. anomaly_in() describes the
// anomaly in `array`, such as "2 of 12 numbers are not finite, the first is -inf at (0, 3)". It returns an empty string
// if `array` has no anomaly.
bool searches_anomalies();
std::string anomaly_in(const Array& array);

}  // namespace autograd
}  // namespace tandem
