#pragma once

#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

// The options of Adam and AdamW, which differ in the default of weight_decay. AdamOptionsOf is a template instead of a
// base class because designated initialisers can't name the members of a base.
template <bool is_decoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = is_decoupled ? 1e-2 : 0;
  bool amsgrad = false;
  bool maximize = false;

  void check(const char* optimizer) const;
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("betas", self.betas);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("amsgrad", self.amsgrad);
    f("maximize", self.maximize);
  }
};

// Kingma and Ba, arXiv:1412.6980, as in PyTorch:
//   g = grad + weight_decay * p
//   m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// amsgrad: the last line uses the largest v so far (Reddi et al., "On the Convergence of Adam and Beyond", 2018).
// State: exp_avg (m), exp_avg_sq (v), max_exp_avg_sq, step (t).
//
// AdamW decays weights independently of the gradient: first p = p * (1 - lr * weight_decay), and g = grad (Loshchilov
// and Hutter, arXiv:1711.05101).
template <bool is_decoupled>
class AdamOf : public FusedOptimizer<AdamOptionsOf<is_decoupled>> {
 public:
  using Options = AdamOptionsOf<is_decoupled>;
  explicit AdamOf(std::vector<NamedTensor> parameters, const Options& options = {});
  explicit AdamOf(const std::vector<ParameterGroup<Options>>& groups);

 private:
  UpdateRule rule(int group) const override;
};

using AdamOptions = AdamOptionsOf<false>;
using AdamGroup = ParameterGroup<AdamOptions>;
using Adam = AdamOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
using AdamWGroup = ParameterGroup<AdamWOptions>;
using AdamW = AdamOf<true>;

}  // namespace tandem::optim
