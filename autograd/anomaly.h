// DetectAnomaly: finds the operation that is the first to give NaN or an infinity.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/temporarily.h>

#include <string>

namespace tandem {

struct DetectAnomalyOptions {
  bool infinities = true;  // false: infinities may pass, as in masks of attention; only NaN is an Error
};

// While a DetectAnomaly lives, this thread checks what every operation gives, and every gradient of a backward pass.
// The first one that has NaN or an infinity is an Error. The Error names the operation, the number and its position,
// and the module whose forward() called the operation: "in head (Linear)".
//
//   const DetectAnomaly detect;
//   criterion(model(x), y).backward();
//
// The module of a gradient is known when the DetectAnomaly lived in the forward pass too. Each check waits for the
// device and reads all numbers: this is for the search, not for training. It cannot be in a recorded step.
class DetectAnomaly {
 public:
  [[nodiscard]] explicit DetectAnomaly(const DetectAnomalyOptions& options = {});

  const DetectAnomalyOptions options;

 private:
  Temporarily<const DetectAnomaly*> innermost_;
};

namespace autograd {

// For operations and the engine: whether a DetectAnomaly lives, and what it finds in `array`, such as "2 of 12 numbers
// are not finite, the first is -inf at (0, 3)". Empty when it finds nothing.
bool searches_anomalies();
std::string anomaly_in(const Array& array);

}  // namespace autograd
}  // namespace tandem
