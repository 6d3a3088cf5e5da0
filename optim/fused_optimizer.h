// FusedOptimizer: an optimizer whose update is one rule for every number (core/formulas/update_rules.h). One pass over
// memory updates all parameters of a group.
#pragma once

#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/optimizer.h>

namespace tandem::optim {

// The passes of an optimizer's groups. On a GPU a rule lies in the GPU's memory, where a recorded step reads it, so
// that options may change between the repetitions of a recorded step.
class FusedUpdate {
 public:
  // One pass over `updates`, which are of `group`.
  void run(int group, std::span<const ParameterUpdate> updates, const UpdateRule& rule);
  // The rule of `group` is another one now. `name`: the optimizer's, for the error.
  void rule_changed(int group, const UpdateRule& rule, const std::string& name);

 private:
  std::vector<Array> stored_;  // for each group: where a GPU reads the rule; undefined on the CPU
};

KeptState state_of(const UpdateRule& rule);

// An algorithm derives from it and says which rule its options make.
template <class Options>
class FusedOptimizer : public OptimizerOf<Options> {
 protected:
  using OptimizerOf<Options>::OptimizerOf;

  virtual UpdateRule rule(int group) const = 0;

  KeptState kept_state(int group) const final { return state_of(rule(group)); }
  void update(int group, std::span<ParameterUpdate> updates) final { fused_.run(group, updates, rule(group)); }
  void options_changed(int group) final { fused_.rule_changed(group, rule(group), this->name()); }

 private:
  FusedUpdate fused_;
};

}  // namespace tandem::optim
