// LrScheduler applies a schedule to an optimizer. ReduceLROnPlateau is a schedule that depends on a metric, not only on
// the step.
#pragma once

#include <tandem/optim/optimizer.h>
#include <tandem/optim/schedules.h>

#include <limits>

namespace tandem::optim {

// Sets the learning rate of each group, and the momentum of each group if the schedule cycles it:
//
//   LrScheduler schedule(optimizer, CosineAnnealingLR{.T_max = epochs});
//   for (...) { ...; optimizer.step(); schedule.step(); }
//
// The base learning rates are those that the optimizer has at construction. The optimizer must outlive the scheduler.
// Only one thread may use both.
class LrScheduler {
 public:
  // Not copyable, because a copy would count its steps separately.
  LrScheduler(LrScheduler&&) = default;
  LrScheduler& operator=(LrScheduler&&) = default;

  // Sets the optimizer to step 0 immediately. Takes one schedule for all groups, or one for each group.
  LrScheduler(Optimizer& optimizer, Schedule schedule);
  LrScheduler(Optimizer& optimizer, std::vector<Schedule> schedules);

  // Throws an Error if something else has changed a learning rate since the last step, because this would undo it.
  void step();
  // Jumps to any step, such as the step at which training resumes.
  void set_step(std::int64_t step);
  std::int64_t last_epoch() const { return last_epoch_; }  // PyTorch's name for the number of steps
  // The current learning rates of the groups.
  std::vector<double> last_lr() const;

  // "last_epoch" () and "base_lrs" (groups), f64.
  std::vector<NamedArray> state_dict() const;
  // Also sets the optimizer's learning rates. Throws an Error and changes nothing if an entry is missing or unknown.
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
  std::int64_t patience = 10;  // number of steps without improvement before a reduction
  double threshold = 1e-4;     // minimum improvement that counts: relative to the best metric, or absolute
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;         // number of steps after a reduction in which the metric is ignored
  std::vector<double> min_lr = {0};  // one for all groups, or one for each
  double eps = 1e-8;                 // smaller changes are not made
};

// Multiplies the learning rates by `factor` if a metric has stopped improving, as in PyTorch.
class ReduceLROnPlateau {
 public:
  // Not copyable, because a copy would count its steps separately.
  ReduceLROnPlateau(ReduceLROnPlateau&&) = default;
  ReduceLROnPlateau& operator=(ReduceLROnPlateau&&) = default;

  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  void step(double metric);
  std::vector<double> last_lr() const;

  // "best", "num_bad_epochs", "cooldown_counter", "last_epoch" () and "last_lr" (groups), f64.
  std::vector<NamedArray> state_dict() const;
  // Also sets the optimizer's learning rates.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  bool is_better(double metric) const;

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_steps_ = 0, cooldown_ = 0, steps_ = 0;
};

}  // namespace tandem::optim
