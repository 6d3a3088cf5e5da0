// Losses as objects that store their options. autograd/functions/loss.h explains what each loss computes.
//   const nn::CrossEntropyLoss criterion({.label_smoothing = 0.1});
#pragma once

#include <tandem/autograd/functions.h>

#include <utility>

namespace tandem::nn {

// A loss `function` with its options, or with only the reduction if it has no other option.
template <class Options, auto function>
class LossWithOptions {
 public:
  LossWithOptions() = default;
  LossWithOptions(Options options) : options_(std::move(options)) {}  // NOLINT: {.reduction = ...} converts
  Tensor operator()(const Tensor& input, const Tensor& target) const { return function(input, target, options_); }

 private:
  Options options_ = {};
};

using CrossEntropyLoss = LossWithOptions<CrossEntropyLossOptions, cross_entropy>;
using NLLLoss = LossWithOptions<NLLLossOptions, nll_loss>;
using MSELoss = LossWithOptions<LossReduction, mse_loss>;
using L1Loss = LossWithOptions<LossReduction, l1_loss>;
using SmoothL1Loss = LossWithOptions<SmoothL1LossOptions, smooth_l1_loss>;
using HuberLoss = LossWithOptions<HuberLossOptions, huber_loss>;
using BCEWithLogitsLoss = LossWithOptions<BCEWithLogitsLossOptions, binary_cross_entropy_with_logits>;
using BCELoss = LossWithOptions<BCELossOptions, binary_cross_entropy>;
using KLDivLoss = LossWithOptions<KLDivLossOptions, kl_div>;

}  // namespace tandem::nn
