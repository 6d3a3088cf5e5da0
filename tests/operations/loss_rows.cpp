#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/loss.h>
#include <tandem/autograd/functions/views.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

LossReduction reduction_of(const Call& c) {
  if (!c.has("reduction")) return LossReduction::mean;
  const auto name = c.get<std::string>("reduction");
  return name == "sum" ? LossReduction::sum : name == "none" ? LossReduction::none : LossReduction::mean;
}

// Returns the attribute as an array in the dtype of the input, or an undefined one if the case lacks it.
Array array_of(const Call& c, const char* key) {
  if (!c.has(key)) return {};
  const auto values = c.get<std::vector<double>>(key);
  const DType dtype = c.in[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
  return Array::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype).to(c.in[0].device());
}

template <class Options>
Options class_options(const Call& c) {
  Options options;
  options.weight = array_of(c, "weight");
  options.reduction = reduction_of(c);
  if (c.has("ignore_index")) options.ignore_index = c.get<std::int64_t>("ignore_index");
  if constexpr (requires { options.label_smoothing; })
    if (c.has("label_smoothing")) options.label_smoothing = c.get<double>("label_smoothing");
  return options;
}

// PyTorch's losses of pairs broadcast with a warning, and some cases rely on that. Here the caller broadcasts.
Tensor in_common_shape(const Call& c, int i) {
  return expand(c.in[i], broadcast_shape(c.in[0].shape(), c.in[1].shape(), "loss"));
}
Tensor input_of(const Call& c) { return in_common_shape(c, 0); }
Tensor target_of(const Call& c) { return in_common_shape(c, 1); }

}  // namespace

std::vector<Row> loss_rows() {
  // A small loss is the logarithm of a number near 1, so it is only as exact as that number.
  const double logarithm = 256 * machine_epsilon(DType::f32);
  return {
      {"softmax", [](Call& c) { return softmax(c.in[0], c.get<std::int64_t>("dim")); }},
      {"log_softmax", [](Call& c) { return log_softmax(c.in[0], c.get<std::int64_t>("dim")); }},
      {.op = "cross_entropy",
       .function = [](Call& c) { return cross_entropy(c.in[0], c.in[1], class_options<CrossEntropyLossOptions>(c)); },
       .tolerance = logarithm,
       .keeps_dtype = false},
      {.op = "nll_loss",
       .function = [](Call& c) { return nll_loss(c.in[0], c.in[1], class_options<NLLLossOptions>(c)); },
       .keeps_dtype = false},
      {"mse_loss", [](Call& c) { return mse_loss(input_of(c), target_of(c), reduction_of(c)); }},
      {.op = "l1_loss",
       .function = [](Call& c) { return l1_loss(input_of(c), target_of(c), reduction_of(c)); },
       // Rounding makes some pairs equal, and the derivative there is 0.
       .is_fuzzed = false},
      {.op = "smooth_l1_loss",
       .function =
           [](Call& c) {
             return smooth_l1_loss(input_of(c), target_of(c),
                                   {reduction_of(c), c.has("beta") ? c.get<double>("beta") : 1});
           },
       .is_fuzzed = false},
      {.op = "huber_loss",
       .function =
           [](Call& c) {
             return huber_loss(input_of(c), target_of(c),
                               {reduction_of(c), c.has("delta") ? c.get<double>("delta") : 1});
           },
       .is_fuzzed = false},
      {.op = "binary_cross_entropy_with_logits",
       .function =
           [](Call& c) {
             return binary_cross_entropy_with_logits(
                 c.in[0], c.in[1], {array_of(c, "weight"), reduction_of(c), array_of(c, "pos_weight")});
           },
       .tolerance = logarithm,
       .low_tolerance = 8},
      {.op = "binary_cross_entropy",
       .function =
           [](Call& c) {
             return binary_cross_entropy(c.in[0], c.in[1], {array_of(c, "weight"), reduction_of(c)});
           },
       .tolerance = logarithm,
       .low_tolerance = 8},
      {.op = "kl_div",
       .function =
           [](Call& c) {
             return kl_div(
                 input_of(c), target_of(c),
                 {reduction_of(c), c.get<std::string>("reduction") == "batchmean", c.get<bool>("log_target")});
           },
       .tolerance = logarithm},
  };
}

}  // namespace tandem::testing
