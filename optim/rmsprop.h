#pragma once

#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;

  void check(const char* optimizer) const;
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("alpha", self.alpha);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("momentum", self.momentum);
    f("centered", self.centered);
    f("maximize", self.maximize);
  }
};

using RMSpropGroup = ParameterGroup<RMSpropOptions>;

// Divides gradients by the root of the average of their squares, as in PyTorch:
//   g = grad + weight_decay * p,  s = alpha * s + (1 - alpha) * g^2
//   centered: a = alpha * a + (1 - alpha) * g, and s - a^2 replaces s in the following lines
//   u = g / (sqrt(s) + eps);  with momentum: b = momentum * b + u, and b replaces u
//   p = p - lr * u
// State: square_avg (s), grad_avg (a), momentum_buffer (b), step. If rounding makes s - a^2 negative, it counts as 0.
// PyTorch computes NaN in that case.
class RMSprop : public FusedOptimizer<RMSpropOptions> {
 public:
  explicit RMSprop(std::vector<NamedTensor> parameters, const RMSpropOptions& options = {});
  explicit RMSprop(const std::vector<RMSpropGroup>& groups);

 private:
  UpdateRule rule(int group) const override;
};

}  // namespace tandem::optim
