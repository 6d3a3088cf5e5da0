// Attention in blocks, which never stores all weights (Dao et al., arXiv:2205.14135): the interface of a device's
// kernel.
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/base/annex.h>

#include <functional>

namespace tandem {

// The inputs of softmax(query key^T * scale + mask) value.
struct AttentionInputs {
  Array query, key, value;  // (..., L, E), (..., S, E), (..., S, F)
  AttentionMask mask;
  double scale;
};
// The gradients with respect to the inputs, in their shapes.
struct AttentionGradients {
  Array query, key, value;
};

// run computes y (..., L, F) = weights value from query (..., L, E), key (..., S, E) and value (..., S, F). It also
// writes log_sum (..., L), which is dense: the logarithm of the divisor of each row of weights, or infinity if the mask
// excludes the whole row. The matrices of all arrays except log_sum have a layout (core/array/matrix_layout.h); the
// leading dimensions may have any strides. run returns false without doing anything if it has no code for the device or
// dtype. run_grad computes the gradients, from the y and log_sum that run computed.
struct BlockedAttentionKernel {
  std::function<bool(const AttentionInputs&, const Array& y, const Array& log_sum)> run;
  std::function<void(const AttentionInputs&, const Array& y, const Array& log_sum, const Array& grad_y,
                     const AttentionGradients&)>
      run_grad;
};
inline constinit AnnexList<BlockedAttentionKernel> blocked_attention_kernels{add_core_annexes};

}  // namespace tandem
