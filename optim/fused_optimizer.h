// FusedOptimizer: an optimizer whose update applies one rule to every number (core/formulas/update_rules.h). One pass
// over memory updates all parameters of a group.
#pragma once

#include <tandem/optim/optimizer.h>

#include <map>

namespace tandem {
struct UpdateRule;  // core/formulas/update_rules.h
}

namespace tandem::optim {

// Runs the update of each parameter group. On a GPU, a recorded step reads the rule from the GPU's memory. Options may
// therefore change between the replays of a recorded step.
class FusedUpdate {
 protected:
  virtual UpdateRule rule(int group) const = 0;

  KeptState state_of_rule(int group) const;
  // One pass over `updates`, which belong to `group`.
  void run(int group, std::span<const ParameterUpdate> updates);
  // Call this when the rule of `group` has changed. `name` is the optimizer's name, for the error.
  void rule_changed(int group, const std::string& name);
  ~FusedUpdate() = default;

 private:
  std::map<int, Array> stored_;  // for each group, the rule in the GPU's memory; undefined on the CPU
};

// An algorithm derives from this class. Its rule() turns its options into a rule.
template <class Options>
class FusedOptimizer : public OptimizerOf<Options>, public FusedUpdate {
 protected:
  using OptimizerOf<Options>::OptimizerOf;

  KeptState kept_state(int group) const final { return state_of_rule(group); }
  void update(int group, std::span<ParameterUpdate> updates) final { run(group, updates); }
  void options_changed(int group) final { rule_changed(group, this->name()); }
};

}  // namespace tandem::optim
