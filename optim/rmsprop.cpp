#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/rmsprop.h>

#include <utility>

namespace tandem::optim {

void RMSpropOptions::check(const char* optimizer) const {
  check_option(optimizer, "lr", lr);
  check_option(optimizer, "eps", eps);
  check_option(optimizer, "momentum", momentum, 1);
  check_option(optimizer, "weight_decay", weight_decay);
  check_option(optimizer, "alpha", alpha, 1);  // above 1 the mean of squares becomes negative
}

RMSprop::RMSprop(std::vector<NamedTensor> parameters, const RMSpropOptions& options)
    : RMSprop({RMSpropGroup{std::move(parameters), options}}) {}

RMSprop::RMSprop(const std::vector<RMSpropGroup>& groups) : FusedOptimizer("RMSprop::step", "RMSprop", groups) {}

UpdateRule RMSprop::rule(int group) const {
  const RMSpropOptions& o = options(group);
  const rules::RmsPropNumbers numbers{static_cast<float>(o.lr),           static_cast<float>(o.alpha),
                                      static_cast<float>(1 - o.alpha),    static_cast<float>(o.eps),
                                      static_cast<float>(o.weight_decay), static_cast<float>(o.momentum),
                                      o.maximize ? -1.0f : 1.0f};
  if (o.centered && o.momentum > 0) return rules::RmsProp<true, true>{numbers};
  if (o.centered) return rules::RmsProp<true, false>{numbers};
  if (o.momentum > 0) return rules::RmsProp<false, true>{numbers};
  return rules::RmsProp<false, false>{numbers};
}

}  // namespace tandem::optim
