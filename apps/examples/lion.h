// A custom optimizer that applies one rule to every number: Lion (Chen et al., "Symbolic Discovery of Optimization
// Algorithms", arXiv:2302.06675, algorithm 2). docs/optimizers.md explains it.
#pragma once

#include <tandem/optim/own_rule.h>

#include <array>
#include <utility>
#include <vector>

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;

  void check(const char* optimizer) const {
    tandem::optim::check_option(optimizer, "lr", lr);
    tandem::optim::check_fraction(optimizer, "betas[0]", betas[0]);
    tandem::optim::check_fraction(optimizer, "betas[1]", betas[1]);
    tandem::optim::check_option(optimizer, "weight_decay", weight_decay);
  }
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("betas", self.betas);
    f("weight_decay", self.weight_decay);
  }
};

// p = p - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p),  m = beta2 * m + (1 - beta2) * g
struct LionRule {
  static constexpr std::array<const char*, 1> state_names{"exp_avg"};
  static constexpr bool counts = false;
  float lr, beta1, beta2, weight_decay;

  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& exp_avg) const {
    const float mixed = beta1 * exp_avg + (1 - beta1) * gradient;
    const float sign = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : 0.0f;
    parameter -= lr * (sign + weight_decay * parameter);
    exp_avg = beta2 * exp_avg + (1 - beta2) * gradient;
  }
};

class Lion : public tandem::optim::FusedOptimizer<LionOptions> {
 public:
  using Group = tandem::optim::ParameterGroup<LionOptions>;
  explicit Lion(std::vector<tandem::NamedTensor> parameters, const LionOptions& options = {})
      : Lion({Group{std::move(parameters), options}}) {}
  explicit Lion(const std::vector<Group>& groups) : FusedOptimizer("Lion::step", "Lion", groups) {}

 private:
  tandem::UpdateRule rule(int group) const override {
    const LionOptions& o = options(group);
    return tandem::optim::own_rule(LionRule{static_cast<float>(o.lr), static_cast<float>(o.betas[0]),
                                            static_cast<float>(o.betas[1]), static_cast<float>(o.weight_decay)});
  }
};
