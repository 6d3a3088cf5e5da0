// ClassLoss: cross-entropy between logits or log probabilities and class numbers, and its gradient, the same on every
// device.
#pragma once

#include <tandem/core/formulas/pair_losses.h>

#include <cmath>

namespace tandem {

// The loss -log p[target]. The probabilities p are computed from logits, or given as logarithms.
struct ClassLoss {
  LossReduction reduction = LossReduction::mean;
  std::int64_t ignore_index = -100;  // a row with this target has no loss
  double label_smoothing = 0;        // this share of the target is spread over all classes
  bool is_log_probability = false;
};

// The contribution of a row to cross_entropy, and the row's gradient with respect to logit (or log probability) c:
//   loss = hit * -log p[target] + sum over c of spread * weight[c] * -log p[c]
//   gradient = mass * p[c] - spread * weight[c] - (c is the target ? hit : 0), times the gradient of the row's loss
// C is the type used for computation.
template <class C>
struct RowOfClasses {
  C hit = 0, spread = 0, mass = 0;  // all 0: this row is ignored
  // `weight` contains the weights of the classes, or is null if all are 1; `weights` is their sum.
  TANDEM_HOST_DEVICE RowOfClasses(const ClassLoss& how, std::int64_t classes, std::int64_t target, const C* weight,
                                  C weights) {
    if (target == how.ignore_index || target < 0 || target >= classes) return;
    const C smoothing = static_cast<C>(how.label_smoothing);
    hit = (1 - smoothing) * (weight ? weight[target] : C(1));
    spread = smoothing / static_cast<C>(classes);
    mass = how.is_log_probability ? C(0) : hit + spread * weights;
  }
};

}  // namespace tandem
