// An annex can add another way to compute scaled_dot_product_attention() here.
#pragma once

#include <tandem/autograd/annexes.h>
#include <tandem/autograd/functions/attention.h>

#include <functional>

namespace tandem {

// The arguments have been checked, dropout_p is 0, and attn_mask needs no gradient. The method returns an undefined
// Tensor if it does not support these arguments.
using AttentionMethod = std::function<Tensor(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const ScaledDotProductAttentionOptions& options, double scale)>;
// These methods are tried in order before the full matrix of weights is computed.
inline constinit AnnexList<AttentionMethod> attention_methods{add_autograd_annexes};

}  // namespace tandem
