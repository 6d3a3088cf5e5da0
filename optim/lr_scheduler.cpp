#include <tandem/core/ops.h>
#include <tandem/optim/lr_scheduler.h>

#include <algorithm>

namespace tandem::optim {

namespace {

std::vector<double> lrs_of(const Optimizer& optimizer) {
  std::vector<double> lrs;
  for (int group = 0; group < optimizer.group_count(); ++group) lrs.push_back(optimizer.lr(group));
  return lrs;
}

NamedArray numbers(const char* name, const std::vector<double>& values) {
  return {name, Array::from(values, {static_cast<std::int64_t>(values.size())})};
}

NamedArray number(const char* name, double value) { return {name, ops::scalar(value, DType::f64)}; }

// The numbers in the entry `name`. Throws an Error if the entry is missing or does not hold `count` numbers.
std::vector<double> entry(const std::vector<NamedArray>& state, const char* name, std::size_t count) {
  const auto found = std::find_if(state.begin(), state.end(), [&](const NamedArray& e) { return e.name == name; });
  TANDEM_CHECK(found != state.end(), "the saved state of the schedule has no ", name);
  auto values = found->array.to(DType::f64).to_vector<double>();
  TANDEM_CHECK(values.size() == count, "the saved state of the schedule has ", values.size(), " numbers in ", name,
               ", expected ", count);
  return values;
}

void check_entries(const std::vector<NamedArray>& state, std::size_t expected) {
  TANDEM_CHECK(state.size() == expected, "the saved state of the schedule has ", state.size(), " entries, expected ",
               expected);
}

}  // namespace

LrScheduler::LrScheduler(Optimizer& optimizer, Schedule schedule)
    : LrScheduler(optimizer,
                  std::vector<Schedule>(static_cast<std::size_t>(optimizer.group_count()), std::move(schedule))) {}

LrScheduler::LrScheduler(Optimizer& optimizer, std::vector<Schedule> schedules)
    : optimizer_(optimizer), schedules_(std::move(schedules)), base_lrs_(lrs_of(optimizer)) {
  TANDEM_CHECK(schedules_.size() == base_lrs_.size(), "LrScheduler: ", schedules_.size(), " schedules for ",
               base_lrs_.size(), " parameter groups: pass one for all groups, or one for each");
  set_step(0);
}

void LrScheduler::step() {
  const auto mine = last_lr(), now = lrs_of(optimizer_);
  for (std::size_t group = 0; group < mine.size(); ++group)
    TANDEM_CHECK(mine[group] == now[group], "LrScheduler::step: this schedule set the learning rate of group ", group,
                 " to ", mine[group], ", and something else changed it to ", now[group],
                 ", which this step would undo. Use one scheduler for an optimizer (SequentialLR and ChainedScheduler "
                 "combine schedules), or call set_step() to return to this schedule's rates");
  set_step(last_epoch_ + 1);
}

void LrScheduler::set_step(std::int64_t step) {
  TANDEM_CHECK(step >= 0, "LrScheduler: step must be at least 0, got ", step);
  for (int group = 0; group < optimizer_.group_count(); ++group) {
    const Schedule& schedule = schedules_[group];
    optimizer_.set_lr(schedule.lr(base_lrs_[group], step), group);
    if (schedule.has_momentum()) optimizer_.set_momentum(schedule.momentum(step), group);
  }
  last_epoch_ = step;
}

std::vector<double> LrScheduler::last_lr() const {
  std::vector<double> lrs;
  for (std::size_t group = 0; group < schedules_.size(); ++group)
    lrs.push_back(schedules_[group].lr(base_lrs_[group], last_epoch_));
  return lrs;
}

std::vector<NamedArray> LrScheduler::state_dict() const {
  return {number("last_epoch", static_cast<double>(last_epoch_)), numbers("base_lrs", base_lrs_)};
}

void LrScheduler::load_state_dict(const std::vector<NamedArray>& state) {
  const auto step = entry(state, "last_epoch", 1);
  auto base_lrs = entry(state, "base_lrs", base_lrs_.size());
  check_entries(state, 2);
  base_lrs_ = std::move(base_lrs);
  set_step(static_cast<std::int64_t>(step[0]));
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(optimizer), options_(std::move(options)) {
  TANDEM_CHECK(options_.factor >= 0 && options_.factor < 1,
               "ReduceLROnPlateau: factor must be at least 0 and below 1, got ", options_.factor);
  TANDEM_CHECK(options_.patience >= 0 && options_.cooldown >= 0,
               "ReduceLROnPlateau: patience and cooldown must not be negative, got ", options_.patience, " and ",
               options_.cooldown);
  const auto groups = static_cast<std::size_t>(optimizer.group_count());
  if (options_.min_lr.size() == 1) options_.min_lr.resize(groups, options_.min_lr[0]);
  TANDEM_CHECK(options_.min_lr.size() == groups, "ReduceLROnPlateau: ", options_.min_lr.size(),
               " values of min_lr for ", groups, " parameter groups: pass one for all, or one for each");
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == PlateauMode::min ? infinity : -infinity;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double by = options_.threshold;
  if (options_.threshold_mode == ThresholdMode::rel)
    return options_.mode == PlateauMode::min ? metric < best_ * (1 - by) : metric > best_ * (by + 1);
  return options_.mode == PlateauMode::min ? metric < best_ - by : metric > best_ + by;
}

void ReduceLROnPlateau::step(double metric) {
  ++steps_;
  if (is_better(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  for (int group = 0; group < optimizer_.group_count(); ++group) {
    const double before = optimizer_.lr(group);
    const double after = std::max(before * options_.factor, options_.min_lr[group]);
    if (before - after > options_.eps) optimizer_.set_lr(after, group);
  }
  cooldown_ = options_.cooldown;
  bad_steps_ = 0;
}

std::vector<double> ReduceLROnPlateau::last_lr() const { return lrs_of(optimizer_); }

std::vector<NamedArray> ReduceLROnPlateau::state_dict() const {
  return {number("best", best_), number("num_bad_epochs", static_cast<double>(bad_steps_)),
          number("cooldown_counter", static_cast<double>(cooldown_)), number("last_epoch", static_cast<double>(steps_)),
          numbers("last_lr", last_lr())};
}

void ReduceLROnPlateau::load_state_dict(const std::vector<NamedArray>& state) {
  const double best = entry(state, "best", 1)[0], bad = entry(state, "num_bad_epochs", 1)[0];
  const double cooldown = entry(state, "cooldown_counter", 1)[0], steps = entry(state, "last_epoch", 1)[0];
  const auto lrs = entry(state, "last_lr", static_cast<std::size_t>(optimizer_.group_count()));
  check_entries(state, 5);
  best_ = best;
  bad_steps_ = static_cast<std::int64_t>(bad);
  cooldown_ = static_cast<std::int64_t>(cooldown);
  steps_ = static_cast<std::int64_t>(steps);
  for (int group = 0; group < optimizer_.group_count(); ++group) optimizer_.set_lr(lrs[group], group);
}

}  // namespace tandem::optim
