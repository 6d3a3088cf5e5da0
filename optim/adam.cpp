#include <tandem/core/formulas/update_rules.h>
#include <tandem/optim/adam.h>

#include <utility>

namespace tandem::optim {

namespace {

template <bool is_decoupled>
UpdateRule adam_rule(const AdamOptionsOf<is_decoupled>& o) {
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

}  // namespace

template <bool is_decoupled>
void AdamOptionsOf<is_decoupled>::check(const char* optimizer) const {
  check_option(optimizer, "lr", lr);
  check_option(optimizer, "eps", eps);
  check_option(optimizer, "weight_decay", weight_decay);
  for (const double beta : betas) check_fraction(optimizer, "each of betas", beta);
}
template struct AdamOptionsOf<false>;
template struct AdamOptionsOf<true>;

Adam::Adam(std::vector<NamedTensor> parameters, const AdamOptions& options)
    : Adam({AdamGroup{std::move(parameters), options}}) {}

Adam::Adam(const std::vector<AdamGroup>& groups) : FusedOptimizer("Adam::step", "Adam", groups) {}

AdamW::AdamW(std::vector<NamedTensor> parameters, const AdamWOptions& options)
    : AdamW({AdamWGroup{std::move(parameters), options}}) {}

AdamW::AdamW(const std::vector<AdamWGroup>& groups) : FusedOptimizer("AdamW::step", "AdamW", groups) {}

UpdateRule Adam::rule(int group) const { return adam_rule(options(group)); }

UpdateRule AdamW::rule(int group) const { return adam_rule(options(group)); }

}  // namespace tandem::optim
