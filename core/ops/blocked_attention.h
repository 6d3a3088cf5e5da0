// Scaled dot-product attention by a device's fused kernel, as an operation.
#pragma once

#include <tandem/core/backend/blocked_attention.h>

#include <optional>

namespace tandem::ops {

// A result of attention. Besides y (..., L, F), it stores only one number per query. The leading dimensions of all
// inputs are equal. y has the memory order of query. If the heads are views of rows, merging them into rows therefore
// needs no copy.
struct Attention {
  Array y;
  Array log_sum;
  const BlockedAttentionKernel* kernel;  // the kernel that computed y
};
// Returns std::nullopt if no kernel supports the device and dtype.
std::optional<Attention> attention(const AttentionInputs& in);
AttentionGradients attention_grad(const AttentionInputs& in, const Attention& forward, const Array& grad_y);

}  // namespace tandem::ops
