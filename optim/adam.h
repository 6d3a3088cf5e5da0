#pragma once

#include <tandem/optim/fused_optimizer.h>

namespace tandem::optim {

// The options of Adam and of AdamW, which differ in the default of weight_decay. A template, and not a struct derived
// from the other: designated initialisers can't name the members of a base.
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
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

using AdamGroup = ParameterGroup<AdamOptions>;
using AdamWGroup = ParameterGroup<AdamWOptions>;

// Kingma and Ba, arXiv:1412.6980, as PyTorch computes it:
//   g = grad + weight_decay * p
//   m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// amsgrad: v in the last line is its maximum so far (Reddi et al., "On the Convergence of Adam and Beyond", 2018).
// State: exp_avg (m), exp_avg_sq (v), max_exp_avg_sq, step (t).
class Adam : public FusedOptimizer<AdamOptions> {
 public:
  explicit Adam(std::vector<NamedTensor> parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<AdamGroup>& groups);

 private:
  UpdateRule rule(int group) const override;
};

// Adam whose weight decay is apart from the gradient: p = p * (1 - lr * weight_decay) first, and g = grad (Loshchilov
// and Hutter, arXiv:1711.05101).
class AdamW : public FusedOptimizer<AdamWOptions> {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters, const AdamWOptions& options = {});
  explicit AdamW(const std::vector<AdamWGroup>& groups);

 private:
  UpdateRule rule(int group) const override;
};

}  // namespace tandem::optim
