#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/adam.h>

#include <utility>

namespace tandem::optim {

template <bool is_decoupled>
void AdamOptionsOf<is_decoupled>::check(const char* optimizer) const {
  check_option(optimizer, "lr", lr);
  check_option(optimizer, "eps", eps);
  check_option(optimizer, "weight_decay", weight_decay);
  for (const double beta : betas) check_fraction(optimizer, "each of betas", beta);
}

template <bool is_decoupled>
AdamOf<is_decoupled>::AdamOf(std::vector<NamedTensor> parameters, const Options& options)
    : AdamOf({ParameterGroup<Options>{std::move(parameters), options}}) {}

template <bool is_decoupled>
AdamOf<is_decoupled>::AdamOf(const std::vector<ParameterGroup<Options>>& groups)
    : FusedOptimizer<Options>(is_decoupled ? "AdamW::step" : "Adam::step", is_decoupled ? "AdamW" : "Adam", groups) {}

template <bool is_decoupled>
UpdateRule AdamOf<is_decoupled>::rule(int group) const {
  const Options& o = this->options(group);
  const rules::AdamNumbers numbers{o.lr,
                                   o.betas[0],
                                   o.betas[1],
                                   o.eps,
                                   is_decoupled ? 0.0f : static_cast<float>(o.weight_decay),
                                   is_decoupled ? static_cast<float>(1 - o.lr * o.weight_decay) : 1.0f,
                                   o.maximize ? -1.0f : 1.0f};
  if (o.amsgrad) return rules::Adam<true>{numbers};
  return rules::Adam<false>{numbers};
}

template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;
template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace tandem::optim
