// Learning-rate finder: a short training whose learning rate grows from step to step. It shows where the loss falls
// fastest, and where it diverges. (Smith, "Cyclical learning rates for training neural networks", arXiv:1506.01186,
// section 3.3; Lightning's lr_find and fastai have the same.)
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
  double first = 1e-7, last = 10;  // learning rates, of the first parameter group
  std::int64_t steps = 100;        // at most; least_sweep_steps or more
  double smoothing = 0.9;          // of the loss: the weight of what was there before
  double limit = 4;                // the sweep ends when the smooth loss is so many times its least
};

// What a sweep has seen, by step. The last step may be the one that diverged.
struct LrCurve {
  std::vector<double> lrs;     // growing: each the same factor larger than the one before
  std::vector<double> losses;  // before the step with that rate
  std::vector<double> smooth;  // a moving average of them
  bool is_complete = false;    // the sweep came to its last rate
  // Where the smooth loss falls fastest by the logarithm of the rate, without the first tenth of the steps and without
  // what comes after the least loss. Empty when it never falls.
  std::optional<double> suggestion;
};

// Calls step(lr) for growing rates until the sweep is over. It returns the loss before the step, the same on all ranks;
// a loss that is not finite ends the sweep. Error when `sweep` makes no sense.
LrCurve sweep_learning_rates(const LrSweep& sweep, const std::function<double(double lr)>& step);

// Draws the curve as an SVG picture: the losses, the smooth loss over the rates, and the suggestion.
void draw(const LrCurve& curve, const std::string& title, const std::filesystem::path& file);

}  // namespace tandem::distributed
