#include <tandem/core/profile/lane_totals.h>

#include <string_view>

namespace tandem::detail {

void LaneTotals::add(const Event& event) {
  Total& total = totals_[{event.name, event.suffix}];
  const std::int64_t duration = event.end - event.begin;
  const bool waits = std::string_view(event.name).starts_with("wait for ");
  std::int64_t self = duration;
  while (!outermost_.empty() && outermost_.back().begin >= event.begin) {
    const Span& inside = outermost_.back();
    self -= waits ? inside.duration - inside.self : inside.duration;
    if (waits) inside.total->self -= inside.self;
    outermost_.pop_back();
  }
  outermost_.push_back({event.begin, duration, self, &total});
  ++total.count;
  total.all += duration;
  total.self += self;
}

void LaneTotals::add_to(ProfileSummary& summary, const std::string& lane) const {
  for (const auto& [name, total] : totals_)
    summary.rows.push_back({lane, name.first + name.second, total.count, static_cast<double>(total.all) * 1e-9,
                            static_cast<double>(total.self) * 1e-9});
}

}  // namespace tandem::detail
