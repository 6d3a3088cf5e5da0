// Learning-rate schedules: pure functions of the step. Each schedule is a struct of its options. It computes a learning
// rate from two numbers: `base`, the initial learning rate of a group, and the number of steps since then. LrScheduler
// (optim/lr_scheduler.h) applies a schedule to an optimizer. Names, options, defaults and values are PyTorch's. The
// program decides what a step is: it calls step() after each epoch or after each update.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

namespace tandem::optim {

// lr * gamma^(step / step_size)
struct StepLR {
  std::int64_t step_size;
  double gamma = 0.1;  // above 0
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// lr * gamma^(number of milestones reached)
struct MultiStepLR {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;  // above 0
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// lr * gamma^step
struct ExponentialLR {
  double gamma;  // above 0
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// From lr to eta_min along half a cosine over T_max steps, and back over the next T_max (SGDR without restarts,
// arXiv:1608.03983).
struct CosineAnnealingLR {
  std::int64_t T_max;
  double eta_min = 0;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// From lr to eta_min, repeatedly. The first cycle takes T_0 steps, and each later cycle takes T_mult times as many
// steps as the previous one (arXiv:1608.03983).
struct CosineAnnealingWarmRestarts {
  std::int64_t T_0;
  std::int64_t T_mult = 1;
  double eta_min = 0;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// lr * (1 - step / total_iters)^power, then 0
struct PolynomialLR {
  std::int64_t total_iters = 5;
  double power = 1;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// Warm-up: lr * factor. The factor changes linearly from start_factor to end_factor in total_iters steps and then stays
// constant.
struct LinearLR {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// lr * factor for total_iters steps, then lr
struct ConstantLR {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// lr * factor(step), where the program supplies `factor`.
struct LambdaLR {
  std::function<double(std::int64_t step)> factor;
  double operator()(double base, std::int64_t step) const { return base * factor(step); }
  void check() const;
};

enum class Anneal { cos, linear };

// The learning rate rises from max_lr / div_factor to max_lr and falls to max_lr / div_factor / final_div_factor. The
// momentum (Adam: the first beta) moves in the opposite direction. The group's own learning rate does not matter. Smith
// and Topin, "Super-Convergence", arXiv:1708.07120. Throws an Error for a step beyond total_steps, which is the number
// of epochs times the steps per epoch.
struct OneCycleLR {
  double max_lr;
  std::int64_t total_steps;
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::cos;
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
  double operator()(double base, std::int64_t step) const;
  double momentum(std::int64_t step) const;
  bool has_momentum() const { return cycle_momentum; }
  void check() const;

 private:
  double anneal(double low, double high, double last, std::int64_t step) const;
};

// Any schedule in this file, or a program's own function of (base, step). Throws an Error if an option is out of range.
class Schedule {
 public:
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Schedule> && std::is_invocable_r_v<double, F, double, std::int64_t>)
      Schedule(F function) {  // NOLINT: StepLR{.step_size = 30} is a schedule
    if constexpr (requires { function.check(); }) function.check();
    if constexpr (requires { function.has_momentum(); }) {
      if (function.has_momentum()) momentum_ = [function](std::int64_t step) { return function.momentum(step); };
    }
    lr_ = std::move(function);
  }
  double lr(double base, std::int64_t step) const { return lr_(base, step); }
  double operator()(double base, std::int64_t step) const { return lr(base, step); }
  bool has_momentum() const { return static_cast<bool>(momentum_); }
  double momentum(std::int64_t step) const { return momentum_(step); }

 private:
  std::function<double(double, std::int64_t)> lr_;
  std::function<double(std::int64_t)> momentum_;  // empty: the schedule does not cycle the momentum
};

// Schedules one after another: schedules[i + 1] begins at step milestones[i], which is its own step 0.
struct SequentialLR {
  std::vector<Schedule> schedules;
  std::vector<std::int64_t> milestones;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

// All schedules at once: the base of each schedule is the result of the previous one. If each schedule multiplies its
// base by a factor, the result is the product of the schedules, as in PyTorch. All do, except OneCycleLR and cosines
// with a nonzero eta_min.
struct ChainedScheduler {
  std::vector<Schedule> schedules;
  double operator()(double base, std::int64_t step) const;
  void check() const;
};

}  // namespace tandem::optim
