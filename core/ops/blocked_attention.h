// Scaled dot-product attention by a device's kernel for it, as an operation.
#pragma once

#include <tandem/core/backend/blocked_attention.h>

#include <optional>

namespace tandem::ops {

// Attention that keeps, besides its result y (..., L, F), only one number for each query. The leading dimensions of all
// inputs are equal. y has the memory order of query, so that heads that are a view of rows become rows again without a
// copy.
struct Attention {
  Array y;
  Array log_sum;
  const BlockedAttentionKernel* kernel;  // that computed it
};
// std::nullopt where no kernel is for the device and dtype.
std::optional<Attention> attention(const AttentionInputs& in);
AttentionGradients attention_grad(const AttentionInputs& in, const Attention& forward, const Array& grad_y);

}  // namespace tandem::ops
