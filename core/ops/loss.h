// Losses, and softmax, on which some of them are based.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/class_loss.h>
#include <tandem/core/formulas/pair_losses.h>

#include <optional>

namespace tandem::ops {

// Returns exp(x) / sum of exp(x) along `dim`, or its logarithm.
Array softmax(const Array& x, std::int64_t dim, bool logarithm = false);
Array softmax_grad(const Array& y, const Array& grad_y, std::int64_t dim, bool logarithm = false);

// The inputs are x (C) or (N, C, ...), target i64 of the same shape without C, and weight (C) or undefined.
struct CrossEntropy {
  Array loss;                // () or with target's shape; f32, or f64 for f64 x
  Array sums, total_weight;  // for the gradient
};
CrossEntropy cross_entropy(const Array& x, const Array& target, const Array& weight = {}, const ClassLoss& how = {});
Array cross_entropy_grad(const CrossEntropy& forward, const Array& x, const Array& target, const Array& weight,
                         const ClassLoss& how, const Array& grad_loss);

// Broadcasts and promotes x and target. Returns the sum of all losses times *scale as (), or each loss if there is no
// scale.
Array pair_loss(const PairLoss& loss, const Array& x, const Array& target, std::optional<double> scale,
                const char* name);
// Returns the gradient with respect to operand 0 (x) or 1 (the target), in that operand's shape and dtype.
Array pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target, const Array& grad_y,
                     std::optional<double> scale);

}  // namespace tandem::ops
