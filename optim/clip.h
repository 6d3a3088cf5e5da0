// Gradient clipping, between backward() and step(). These functions change the gradients in place; an optimizer only
// reads them. Gradients that are views of communication buckets are already averaged over the ranks at that point, so
// all ranks clip identically without a message.
#pragma once

#include <tandem/autograd/tensor.h>

#include <vector>

namespace tandem::optim {

// Multiplies all gradients (f32, on one device) by max_norm / (norm + 1e-6) if that factor is below 1. `norm` is the
// norm of all gradients as one vector: (sum of |g|^norm_type)^(1 / norm_type), or the largest |g| if norm_type is
// infinity. Returns the norm, () f32, on the device of the gradients. The host does not wait for it. Parameters without
// a gradient don't count. If there are no gradients, the norm is 0.
//
// With error_if_nonfinite, the host waits for the norm. If the norm is not finite, the function throws an Error and
// writes nothing. Without error_if_nonfinite, the gradients become NaN or zero, as in PyTorch.
Array clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);
Array clip_grad_norm_(const std::vector<NamedTensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);

// Computes only the norm.
Array grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2);

// Limits each element of the gradients to [-clip_value, clip_value]. A NaN stays NaN.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(const std::vector<NamedTensor>& parameters, double clip_value);

}  // namespace tandem::optim
