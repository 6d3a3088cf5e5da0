// Losses, and what they are made of. Reductions of 16-bit numbers, softmax and logarithms are computed in f32.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/pair_losses.h>

namespace tandem {

Tensor softmax(const Tensor& x, std::int64_t dim = -1);
Tensor log_softmax(const Tensor& x, std::int64_t dim = -1);

// Losses of classes. logits (C), (N, C) or (N, C, d1, ...).
struct CrossEntropyOptions {
  Array weight = {};                              // (C): what each class counts; undefined: all 1
  std::int64_t ignore_index = -100;               // a target that costs nothing, and a mean does not count
  LossReduction reduction = LossReduction::mean;  // the mean is weighted
  double label_smoothing = 0;
};
// target i64: the logits' shape without C, one class each; or floating, probabilities in the logits' shape. -> () or,
// without reduction, one loss for each row; f32 also for 16-bit logits. A mean over nothing is NaN. Error when a target
// is no class.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});
struct NLLLossOptions {
  Array weight = {};
  std::int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};
// The same from the logarithms of probabilities: -log_p[target].
Tensor nll_loss(const Tensor& log_p, const Tensor& target, const NLLLossOptions& options = {});

// Losses of numbers: input and target broadcast and are promoted; both may require gradients.
Tensor mse_loss(const Tensor& input, const Tensor& target, LossReduction reduction = LossReduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, LossReduction reduction = LossReduction::mean);
struct SmoothL1Options {
  LossReduction reduction = LossReduction::mean;
  double beta = 1;  // where the parabola d^2 / (2 beta) becomes the line |d| - beta / 2; 0: l1_loss
};
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options = {});
struct HuberOptions {
  LossReduction reduction = LossReduction::mean;
  double delta = 1;  // where the parabola d^2 / 2 becomes the line delta (|d| - delta / 2)
};
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options = {});

struct BinaryCrossEntropyOptions {
  Array weight = {};  // what each number counts; broadcasts
  LossReduction reduction = LossReduction::mean;
  Array pos_weight = {};  // what positive targets count, broadcasts; with logits only
};
// target: probabilities, in the shape of the input. Computed from logits, exact also for large ones.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});
// From probabilities: NaN outside of [0, 1]; logarithms are at least -100.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options = {});

struct KLDivOptions {
  LossReduction reduction = LossReduction::mean;
  bool batchmean = false;   // the sum divided by input.dim(0): the divergence itself; in place of `reduction`
  bool log_target = false;  // target are logarithms too
};
// target (log target - input): input are logarithms of probabilities.
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

}  // namespace tandem
