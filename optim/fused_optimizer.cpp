#include <tandem/core/backend/backend.h>
#include <tandem/core/device/recording.h>
#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

void FusedUpdate::run(int group, std::span<const ParameterUpdate> updates) {
  const Device device = updates.front().parameter.device();
  std::vector<UpdateSegment> segments;
  segments.reserve(updates.size());
  for (const ParameterUpdate& u : updates) {
    UpdateSegment segment{static_cast<float*>(u.parameter.raw()),
                          static_cast<const float*>(u.gradient.raw()),
                          {},
                          u.count.defined() ? static_cast<float*>(u.count.raw()) : nullptr,
                          u.parameter.numel(),
                          u.is_first,
                          u.while_finite.defined() ? static_cast<const float*>(u.while_finite.raw()) : nullptr};
    for (std::size_t s = 0; s < u.state.size(); ++s) segment.state[s] = static_cast<float*>(u.state[s].raw());
    segments.push_back(segment);
  }
  Array& stored = stored_[group];
  const UpdateRule rule = this->rule(group);
  // While a step is recorded as a graph, a write to the device would become part of the graph. The rule is then not
  // stored.
  if (!stored.defined() && !device.is_cpu() && !is_recording_graph()) {
    stored = Array::empty({sizeof(UpdateRule)}, DType::u8, device);
    backend(device).write_rule(rule, stored.raw());
  }
  backend(device).update(segments, rule, stored.defined() ? stored.raw() : nullptr);
}

void FusedUpdate::rule_changed(int group, const std::string& name) {
  const Array stored = stored_[group];
  if (!stored.defined()) return;
  TANDEM_CHECK(!is_recording_graph(), name,
               ": options can't change within a recorded step, because every replay would set the same options: "
               "call set_lr() or the schedule before or after the step");
  backend(stored.device()).write_rule(rule(group), stored.raw());
}

KeptState FusedUpdate::state_of_rule(int group) const {
  return std::visit(
      [](const auto& r) {
        return KeptState{{r.state_names.begin(), r.state_names.end()}, r.counts};
      },
      rule(group).any());
}

}  // namespace tandem::optim
