#include <tandem/core/base/check.h>
#include <tandem/optim/schedules.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem::optim {

namespace {

void check_positive(const char* schedule, const char* option, std::int64_t value) {
  TANDEM_CHECK(value > 0, schedule, ": ", option, " must be above 0, got ", value);
}

// Half a cosine wave from `from` (part 0) to `to` (part 1).
double along_cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

void check_gamma(const char* schedule, double gamma) {
  TANDEM_CHECK(gamma > 0, schedule, ": gamma must be above 0, got ", gamma,
               ": was it omitted, or an integer division?");
}

}  // namespace

double StepLR::operator()(double base, std::int64_t step) const {
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}
void LambdaLR::check() const { TANDEM_CHECK(factor, "LambdaLR: factor is an empty function"); }

void StepLR::check() const {
  check_positive("StepLR", "step_size", step_size);
  check_gamma("StepLR", gamma);
}

double MultiStepLR::operator()(double base, std::int64_t step) const {
  const auto reached = std::count_if(milestones.begin(), milestones.end(), [&](auto m) { return m <= step; });
  return base * std::pow(gamma, static_cast<double>(reached));
}

void MultiStepLR::check() const { check_gamma("MultiStepLR", gamma); }

void ExponentialLR::check() const { check_gamma("ExponentialLR", gamma); }

double ExponentialLR::operator()(double base, std::int64_t step) const {
  return base * std::pow(gamma, static_cast<double>(step));
}

double CosineAnnealingLR::operator()(double base, std::int64_t step) const {
  return along_cosine(base, eta_min, ratio(step, T_max));
}
void CosineAnnealingLR::check() const { check_positive("CosineAnnealingLR", "T_max", T_max); }

double CosineAnnealingWarmRestarts::operator()(double base, std::int64_t step) const {
  if (T_mult == 1) step %= T_0;
  // These are doubles because the cycle length grows exponentially and could overflow an integer.
  auto now = static_cast<double>(step), length = static_cast<double>(T_0);
  for (; now >= length; length *= static_cast<double>(T_mult)) now -= length;
  return along_cosine(base, eta_min, now / length);
}
void CosineAnnealingWarmRestarts::check() const {
  check_positive("CosineAnnealingWarmRestarts", "T_0", T_0);
  check_positive("CosineAnnealingWarmRestarts", "T_mult", T_mult);
}

double PolynomialLR::operator()(double base, std::int64_t step) const {
  return base * std::pow(1 - ratio(std::min(step, total_iters), total_iters), power);
}
void PolynomialLR::check() const { check_positive("PolynomialLR", "total_iters", total_iters); }

double LinearLR::operator()(double base, std::int64_t step) const {
  return base * (start_factor + (end_factor - start_factor) * ratio(std::min(step, total_iters), total_iters));
}
void LinearLR::check() const {
  TANDEM_CHECK(start_factor > 0 && start_factor <= 1, "LinearLR: start_factor must be above 0 and at most 1, got ",
               start_factor);
  TANDEM_CHECK(end_factor >= 0 && end_factor <= 1, "LinearLR: end_factor must be from 0 to 1, got ", end_factor);
  check_positive("LinearLR", "total_iters", total_iters);
}

double ConstantLR::operator()(double base, std::int64_t step) const {
  return step < total_iters ? base * factor : base;
}
void ConstantLR::check() const {
  TANDEM_CHECK(factor >= 0 && factor <= 1, "ConstantLR: factor must be from 0 to 1, got ", factor);
}

// The value at `step`. It moves low -> high -> last, or low -> high -> low -> last with three phases.
double OneCycleLR::anneal(double low, double high, double last, std::int64_t step) const {
  TANDEM_CHECK(step <= total_steps, "OneCycleLR: step ", step, ", but total_steps is ", total_steps);
  struct Phase {
    double end, from, to;
  };
  const auto total = static_cast<double>(total_steps);
  const double first_end = pct_start * total - 1;
  const std::vector<Phase> phases =
      three_phase ? std::vector<Phase>{{first_end, low, high}, {2 * first_end, high, low}, {total - 1, low, last}}
                  : std::vector<Phase>{{first_end, low, high}, {total - 1, high, last}};
  const auto now = static_cast<double>(step);
  double begin = 0;
  std::size_t i = 0;
  for (; i + 1 < phases.size() && now > phases[i].end; ++i) begin = phases[i].end;
  const auto& [end, from, to] = phases[i];
  const double part = (now - begin) / (end - begin);
  return anneal_strategy == Anneal::cos ? along_cosine(from, to, part) : (to - from) * part + from;
}

double OneCycleLR::operator()(double, std::int64_t step) const {
  const double low = max_lr / div_factor;
  return anneal(low, max_lr, low / final_div_factor, step);
}

double OneCycleLR::momentum(std::int64_t step) const { return anneal(max_momentum, base_momentum, max_momentum, step); }

void OneCycleLR::check() const {
  check_positive("OneCycleLR", "total_steps", total_steps);
  TANDEM_CHECK(pct_start >= 0 && pct_start <= 1, "OneCycleLR: pct_start must be from 0 to 1, got ", pct_start);
}

double SequentialLR::operator()(double base, std::int64_t step) const {
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
  const auto index = static_cast<std::size_t>(next - milestones.begin());
  return schedules[index].lr(base, index == 0 ? step : step - milestones[index - 1]);
}
void SequentialLR::check() const {
  TANDEM_CHECK(!schedules.empty() && milestones.size() + 1 == schedules.size(), "SequentialLR: ", schedules.size(),
               " schedules need ", static_cast<std::int64_t>(schedules.size()) - 1, " milestones, got ",
               milestones.size());
  TANDEM_CHECK(std::is_sorted(milestones.begin(), milestones.end()), "SequentialLR: milestones must increase");
  TANDEM_CHECK(milestones.empty() || milestones[0] >= 0, "SequentialLR: milestones must not be negative, got ",
               milestones[0]);
}

double ChainedScheduler::operator()(double base, std::int64_t step) const {
  for (const Schedule& schedule : schedules) base = schedule.lr(base, step);
  return base;
}
void ChainedScheduler::check() const { TANDEM_CHECK(!schedules.empty(), "ChainedScheduler: needs a schedule"); }

}  // namespace tandem::optim
