#include <tandem/distributed/training/best_value.h>
#include <tandem/distributed/training/option_parser.h>
#include <tandem/distributed/training/training_log.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace tandem::distributed {

BestValue::BestValue(const std::string& wanted) : wanted_(wanted) {
  if (wanted.empty()) return;
  larger_is_better_ = wanted.starts_with("max:");
  if ((larger_is_better_ || wanted.starts_with("min:")) && wanted.size() > 4) name_ = wanted.substr(4);
  else throw UsageError("--keep-best " + wanted + ": expected min:NAME or max:NAME, such as min:total_loss");
}

const Metric* BestValue::find(const std::vector<Metric>& figures) const {
  for (const auto& metric : figures)
    if (metric.name == name_ && std::holds_alternative<double>(metric.value)) return &metric;
  return nullptr;
}

void BestValue::check(const std::vector<Metric>& figures) const {
  if (!is_on() || find(figures)) return;
  std::string names;
  for (const auto& metric : figures)
    if (std::holds_alternative<double>(metric.value)) names += (names.empty() ? "" : ", ") + metric.name;
  throw UsageError("--keep-best " + wanted_ + ": no figure has that name; there are " + names);
}

bool BestValue::consider(const std::vector<Metric>& figures, std::int64_t step) {
  if (!is_on()) return false;
  const Metric* const found = find(figures);
  if (!found) return false;
  kind_ = found->kind;
  const double value = std::get<double>(found->value);
  const bool is_first = state_.step < 0;
  const bool is_better = larger_is_better_ ? value > state_.value : value < state_.value;
  if (!std::isfinite(value) || !(is_first || is_better)) {
    ++state_.since;
    return false;
  }
  state_ = {value, step, 0};
  return true;
}

std::string BestValue::state_text() const { return fmt::format("{:a} {} {}", state_.value, state_.step, state_.since); }

void BestValue::go_on(const std::string& text) {
  State state;
  int length = 0;
  long long step = 0, since = 0;
  const bool fits = std::sscanf(text.c_str(), "%la %lld %lld%n", &state.value, &step, &since, &length) == 3;
  TANDEM_CHECK(fits && length == static_cast<int>(text.size()) && step >= -1 && since >= 0, "\"", text,
               "\" is no state of --keep-best");
  state.step = step;
  state.since = since;
  state_ = state;
}

std::string BestValue::text() const {
  if (state_.step < 0) return "none, as no value was finite";
  return shown({{name_, state_.value, kind_}}) + " after " + counted(state_.step, "step");
}

}  // namespace tandem::distributed
