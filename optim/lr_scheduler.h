// LrScheduler applies a schedule to an optimizer. ReduceLROnPlateau is the schedule that depends on a metric, not only
// on the step.
#pragma once

#include <tandem/optim/optimizer.h>
#include <tandem/optim/schedules.h>

#include <limits>

namespace tandem::optim {

// Sets the learning rate of each group, and the momentum of each group when the schedule cycles it:
//
//   LrScheduler schedule(optimizer, CosineAnnealingLR{.T_max = epochs});
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// The learning rates that the optimizer has at first are the bases. The optimizer must outlive the scheduler.
class LrScheduler {
 public:
  // Sets the optimizer to step 0 at once. Takes one schedule for all groups, or one for each group.
  LrScheduler(Optimizer& optimizer, Schedule schedule);
  LrScheduler(Optimizer& optimizer, std::vector<Schedule> schedules);

  void step() { set_step(last_epoch_ + 1); }
  // Goes to any step, such as the step at which training resumes.
  void set_step(std::int64_t step);
  std::int64_t last_epoch() const { return last_epoch_; }  // PyTorch's name for the number of steps
  // The learning rates that the groups were set to.
  std::vector<double> last_lr() const;

  // "last_epoch" () and "base_lrs" (groups), f64.
  std::vector<NamedArray> state_dict() const;
  // Also sets the learning rates of the optimizer. Error when an entry is missing or unknown. Then nothing is changed.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  Optimizer& optimizer_;
  std::vector<Schedule> schedules_;  // one for each group
  std::vector<double> base_lrs_;
  std::int64_t last_epoch_ = 0;
};

enum class PlateauMode { min, max };
enum class ThresholdMode { rel, abs };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  // whether a smaller metric is better
  double factor = 0.1;
  std::int64_t patience = 10;  // the number of steps without a better metric before a reduction
  double threshold = 1e-4;     // by how much a metric must be better: relative to the best one, or absolute
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;         // the number of steps after a reduction that don't count
  std::vector<double> min_lr = {0};  // one for all groups, or one for each
  double eps = 1e-8;                 // a smaller change is not made
};

// Multiplies the learning rates by `factor` when a metric has stopped to become better, as PyTorch does.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  void step(double metric);
  std::vector<double> last_lr() const;

  // "best", "num_bad_epochs", "cooldown_counter", "last_epoch" () and "last_lr" (groups), f64.
  std::vector<NamedArray> state_dict() const;
  // Also sets the learning rates of the optimizer.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_steps_ = 0, cooldown_ = 0, steps_ = 0;
};

}  // namespace tandem::optim
