#pragma once

#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  void check(const char* optimizer) const;
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("momentum", self.momentum);
    f("dampening", self.dampening);
    f("weight_decay", self.weight_decay);
    f("nesterov", self.nesterov);
  }
};

using SGDGroup = ParameterGroup<SGDOptions>;

// Stochastic gradient descent with momentum, as in PyTorch:
//   g = grad + weight_decay * p
//   v = g at first, then momentum * v + (1 - dampening) * g
//   p = p - lr * (nesterov ? g + momentum * v : v)
class SGD : public FusedOptimizer<SGDOptions> {
 public:
  SGD(std::vector<NamedTensor> parameters, const SGDOptions& options);
  explicit SGD(const std::vector<SGDGroup>& groups);

 private:
  UpdateRule rule(int group) const override;
};

}  // namespace tandem::optim
