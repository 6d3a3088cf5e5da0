// Attention in blocks that never hold all weights (Dao et al., arXiv:2205.14135): what a device computes.
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/base/annex.h>

#include <functional>

namespace tandem {

// softmax(query key^T * scale + mask) value.
struct AttentionInputs {
  Array query, key, value;  // (..., L, E), (..., S, E), (..., S, F)
  AttentionMask mask;
  double scale;
};
// The gradients with respect to the inputs, in the inputs' shapes.
struct AttentionGradients {
  Array query, key, value;
};

// From query (..., L, E), key (..., S, E) and value (..., S, F), run computes y (..., L, F) = weights value, and
// log_sum
// (..., L), which is dense: the logarithm of what each row of weights was divided by, or infinity where the mask left
// nothing of the row. The matrices of all arrays but log_sum have a layout (core/array/matrix_layout.h); the leading
// dimensions may have any strides. It returns false, and has done nothing, where it has no code for the device or
// dtype. run_grad computes the gradients, from the y and log_sum that run computed.
struct BlockedAttentionKernel {
  std::function<bool(const AttentionInputs&, const Array& y, const Array& log_sum)> run;
  std::function<void(const AttentionInputs&, const Array& y, const Array& log_sum, const Array& grad_y,
                     const AttentionGradients&)>
      run_grad;
};
AnnexList<BlockedAttentionKernel>& blocked_attention_kernels();

}  // namespace tandem
