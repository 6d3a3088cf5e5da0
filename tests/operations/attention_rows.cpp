#include <tandem/autograd/functions/attention.h>
#include <tandem/nn/attention.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

Tensor multihead_attention(Call& c) {
  const bool has_sizes = c.has("sizes");
  const std::size_t after = has_sizes ? 6 : 4;  // of the weights of query, key and value
  const bool has_bias = c.in.size() == after + 3;
  nn::MultiheadAttention module(
      c.in[0].dim(-1), c.get<std::int64_t>("heads"),
      {.bias = has_bias, .batch_first = c.get<bool>("batch_first"), .kdim = c.in[1].dim(-1), .vdim = c.in[2].dim(-1)});
  if (has_sizes) {
    module.q_proj_weight.refer_to(c.in[3]);
    module.k_proj_weight.refer_to(c.in[4]);
    module.v_proj_weight.refer_to(c.in[5]);
  } else {
    module.in_proj_weight.refer_to(c.in[3]);
  }
  module.out_proj.weight.refer_to(c.in[has_bias ? after + 1 : after]);
  if (has_bias) {
    module.in_proj_bias.refer_to(c.in[after]);
    module.out_proj.bias.refer_to(c.in[after + 2]);
  }
  const auto mask = [&](const std::string& key) -> Tensor {
    if (!c.has(key.c_str())) return {};
    std::vector<float> values;
    for (const bool forbidden : c.attributes.at(key)) values.push_back(forbidden);
    return Array::from(values, c.dims((key + "_shape").c_str())).to(DType::boolean).to(c.in[0].device());
  };
  const auto flag = [&](const char* key) { return !c.has(key) || c.get<bool>(key); };
  const auto result = module.forward(c.in[0], c.in[1], c.in[2],
                                     {.key_padding_mask = mask("key_padding_mask"),
                                      .need_weights = flag("need_weights"),
                                      .attn_mask = mask("attn_mask"),
                                      .average_attn_weights = flag("average_attn_weights")});
  if (result.weights.defined()) c.more.push_back(result.weights.value());
  return result.output;
}

}  // namespace

std::vector<Row> attention_rows() {
  return {
      {.op = "scaled_dot_product_attention",
       .function =
           [](Call& c) {
             ScaledDotProductAttentionOptions options{.attn_mask = c.optional(3)};
             if (c.has("is_causal")) options.is_causal = c.get<bool>("is_causal");
             if (c.has("scale")) options.scale = c.get<double>("scale");
             return scaled_dot_product_attention(c.in[0], c.in[1], c.in[2], options);
           },
       // A GPU may round 16-bit scores before it computes their exponentials.
       .low_tolerance = 16},
      // The shapes of its parameters depend on the shape of its input.
      {.op = "multihead_attention",
       .function = multihead_attention,
       .low_inputs = 9,
       .low_tolerance = 32,
       .is_fuzzed = false,
       .also = {"attention_weights"}},
  };
}

}  // namespace tandem::testing
