// FusedOptimizer: an optimizer whose update is one rule for every number (core/formulas/update_rules.h). One pass over
// memory updates all parameters of a group.
#pragma once

#include <tandem/optim/optimizer.h>

namespace tandem {
struct UpdateRule;  // core/formulas/update_rules.h
}

namespace tandem::optim {

// The passes of an optimizer's groups. On a GPU a rule lies in the GPU's memory, where a recorded step reads it, so
// that options may change between the repetitions of a recorded step.
class FusedUpdate {
 protected:
  virtual UpdateRule rule(int group) const = 0;

  KeptState state_of_rule(int group) const;
  // One pass over `updates`, which are of `group`.
  void run(int group, std::span<const ParameterUpdate> updates);
  // The rule of `group` is another one now. `name`: the optimizer's, for the error.
  void rule_changed(int group, const std::string& name);
  ~FusedUpdate() = default;

 private:
  std::vector<Array> stored_;  // for each group: where a GPU reads the rule; undefined on the CPU
};

// An algorithm derives from it and says in rule() which rule its options make.
template <class Options>
class FusedOptimizer : public OptimizerOf<Options>, protected FusedUpdate {
 protected:
  using OptimizerOf<Options>::OptimizerOf;

  KeptState kept_state(int group) const final { return state_of_rule(group); }
  void update(int group, std::span<ParameterUpdate> updates) final { run(group, updates); }
  void options_changed(int group) final { rule_changed(group, this->name()); }
};

}  // namespace tandem::optim
