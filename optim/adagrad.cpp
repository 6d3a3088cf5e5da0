#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/adagrad.h>

#include <utility>

namespace tandem::optim {

void AdagradOptions::check(const char* optimizer) const {
  check_option(optimizer, "lr", lr);
  check_option(optimizer, "lr_decay", lr_decay);
  check_option(optimizer, "weight_decay", weight_decay);
  check_option(optimizer, "initial_accumulator_value", initial_accumulator_value);
  check_option(optimizer, "eps", eps);
}

Adagrad::Adagrad(std::vector<NamedTensor> parameters, const AdagradOptions& options)
    : Adagrad({AdagradGroup{std::move(parameters), options}}) {}

Adagrad::Adagrad(const std::vector<AdagradGroup>& groups) : FusedOptimizer("Adagrad::step", "Adagrad", groups) {}

UpdateRule Adagrad::rule(int group) const {
  const AdagradOptions& o = options(group);
  return rules::Adagrad{o.lr, o.lr_decay, static_cast<float>(o.eps), static_cast<float>(o.weight_decay),
                        o.maximize ? -1.0f : 1.0f};
}

}  // namespace tandem::optim
