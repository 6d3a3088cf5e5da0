#pragma once

#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;

  void check(const char* optimizer) const;
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("lr_decay", self.lr_decay);
    f("weight_decay", self.weight_decay);
    f("initial_accumulator_value", self.initial_accumulator_value);
    f("eps", self.eps);
    f("maximize", self.maximize);
  }
};

using AdagradGroup = ParameterGroup<AdagradOptions>;

// Divides gradients by the root of the sum of their squares (Duchi, Hazan, Singer, JMLR 12, 2011), as in PyTorch:
//   g = grad + weight_decay * p,  s = s + g^2, where s starts as initial_accumulator_value
//   p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)
// State: sum (s), step (t).
class Adagrad : public FusedOptimizer<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<NamedTensor> parameters, const AdagradOptions& options = {});
  explicit Adagrad(const std::vector<AdagradGroup>& groups);

 private:
  UpdateRule rule(int group) const override;
  double initial_state(int group) const override { return options(group).initial_accumulator_value; }
};

}  // namespace tandem::optim
