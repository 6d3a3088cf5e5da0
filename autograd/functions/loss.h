// Losses and softmax. 16-bit inputs are reduced in f32, and softmax and logarithms are computed in f32.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/loss_reduction.h>

namespace tandem {

Tensor softmax(const Tensor& x, std::int64_t dim = -1);
Tensor log_softmax(const Tensor& x, std::int64_t dim = -1);
// A temperature in place of `dim` is a mistake: it would be rounded to a dimension.
Tensor softmax(const Tensor& x, std::floating_point auto temperature) = delete;
Tensor log_softmax(const Tensor& x, std::floating_point auto temperature) = delete;

// Classification losses: logits (C), (N, C) or (N, C, d1, ...).
struct CrossEntropyLossOptions {
  Array weight = {};                              // (C): the weight of each class; undefined: all 1
  std::int64_t ignore_index = -100;               // rows with this target have loss 0, and the mean excludes them
  LossReduction reduction = LossReduction::mean;  // the mean is weighted
  double label_smoothing = 0;
};
// An i64 target holds one class for each row of logits: it has the shape of the logits without C. A floating target
// holds probabilities, in the shape of the logits. The result is (), or one loss per row without reduction. It is f32
// even for 16-bit logits. A mean over no rows is NaN. Throws an Error if a target is not a valid class.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options = {});
struct NLLLossOptions {
  Array weight = {};
  std::int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};
// The negative log-likelihood loss of log probabilities: -log_p[target].
Tensor nll_loss(const Tensor& log_p, const Tensor& target, const NLLLossOptions& options = {});

// Regression losses. target has the shape of input; dtypes are promoted. Both may require gradients.
Tensor mse_loss(const Tensor& input, const Tensor& target, LossReduction reduction = LossReduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, LossReduction reduction = LossReduction::mean);
struct SmoothL1LossOptions {
  LossReduction reduction = LossReduction::mean;
  double beta = 1;  // where the parabola d^2 / (2 beta) becomes the line |d| - beta / 2; 0: l1_loss
};
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options = {});
struct HuberLossOptions {
  LossReduction reduction = LossReduction::mean;
  double delta = 1;  // where the parabola d^2 / 2 becomes the line delta (|d| - delta / 2)
};
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

struct BCEWithLogitsLossOptions {
  Array weight = {};  // the weight of each number; broadcasts
  LossReduction reduction = LossReduction::mean;
  Array pos_weight = {};  // the weight of positive targets; broadcasts
};
// target holds probabilities, in the shape of logits. The loss is accurate for large logits too.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options = {});
struct BCELossOptions {
  Array weight = {};  // the weight of each number; broadcasts
  LossReduction reduction = LossReduction::mean;
};
// The loss of probabilities. Logarithms below -100 count as -100. On the CPU, an input outside [0, 1] is an Error. On a
// GPU the loss is then NaN.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BCELossOptions& options = {});

struct KLDivLossOptions {
  LossReduction reduction = LossReduction::mean;
  bool batchmean = false;   // true: the sum is divided by input.dim(0), regardless of `reduction`
  bool log_target = false;  // whether target also holds logarithms
};
// target * (log(target) - input), where input holds log probabilities.
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options = {});

}  // namespace tandem
