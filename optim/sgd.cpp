#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/sgd.h>

#include <cmath>
#include <utility>

namespace tandem::optim {

void SGDOptions::check(const char* optimizer) const {
  check_option(optimizer, "lr", lr);
  check_option(optimizer, "momentum", momentum, 1);  // above 1 the velocity would grow without a gradient
  check_option(optimizer, "weight_decay", weight_decay);
  TANDEM_CHECK(std::isfinite(dampening), optimizer, ": dampening must be a number, got ", dampening);
  TANDEM_CHECK(!nesterov || (momentum > 0 && dampening == 0), optimizer,
               ": nesterov needs momentum above 0 and dampening 0");
}

SGD::SGD(std::vector<NamedTensor> parameters, const SGDOptions& options)
    : SGD({SGDGroup{std::move(parameters), options}}) {}

SGD::SGD(const std::vector<SGDGroup>& groups) : FusedOptimizer("SGD::step", "SGD", groups) {}

UpdateRule SGD::rule(int group) const {
  const SGDOptions& o = options(group);
  const auto lr = static_cast<float>(o.lr), decay = static_cast<float>(o.weight_decay);
  if (o.momentum == 0) return rules::Sgd{lr, decay};
  return rules::SgdMomentum{lr,         decay, static_cast<float>(o.momentum), static_cast<float>(1 - o.dampening),
                            o.nesterov, false};
}

}  // namespace tandem::optim
