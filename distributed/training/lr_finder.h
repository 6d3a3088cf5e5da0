// Learning-rate finder: a short training whose learning rate grows with every step. It shows at which rate the loss
// falls fastest, and at which it diverges. (Smith, "Cyclical learning rates for training neural networks",
// arXiv:1506.01186, section 3.3; Lightning's lr_find and fastai do the same.)
#pragma once

#include <tandem/distributed/training/options/choices.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

struct LrSweep {
  double first = 1e-7, last = 10;  // learning rates of the first parameter group
  std::int64_t steps = 100;        // the maximum number; at least least_sweep_steps
  double smoothing = 0.9;          // of the loss: the weight of the previous average
  double limit = 4;                // the sweep ends when the smooth loss exceeds its minimum by this factor
};

// The results of a sweep, by step. The loss may have diverged in the last step.
struct LrCurve {
  std::vector<double> lrs;     // growing by a constant factor
  std::vector<double> losses;  // the loss before the step with that rate
  std::vector<double> smooth;  // a moving average of the losses
  bool is_complete = false;    // whether the sweep has reached its last rate
  // The rate at which the smooth loss falls fastest, as a function of the logarithm of the rate. Ignores the first
  // tenth of the steps, and all steps after the minimum. Empty if the loss never falls.
  std::optional<double> suggestion;
};

// Calls step(lr) for growing rates until the sweep is over. step() must return the loss before the step, the same on
// all ranks. A loss that is not finite ends the sweep. Throws an Error if `sweep` is invalid.
LrCurve sweep_learning_rates(const LrSweep& sweep, const std::function<double(double lr)>& step);

// Draws the curve as an SVG image: the losses and the smooth loss over the rates, and the suggestion.
void draw(const LrCurve& curve, const std::string& title, const std::filesystem::path& file);

}  // namespace tandem::distributed
