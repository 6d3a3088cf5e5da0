// Clipping of gradients, between backward() and step(). These functions write the gradients in place; an optimizer only
// reads them. Gradients that are views of communication buckets are averaged over the ranks by then, so that all ranks
// clip alike without a message.
#pragma once

#include <tandem/autograd/tensor.h>

#include <vector>

namespace tandem::optim {

// Multiplies all gradients (f32, on one device) by max_norm / (norm + 1e-6) when that factor is below 1. `norm` is the
// norm of all their numbers as one vector: (sum of |g|^norm_type)^(1 / norm_type), or the largest |g| when norm_type is
// infinity. Returns the norm, () f32, on the device of the gradients; the host does not wait for it. Parameters without
// gradient don't count. Without any gradient the norm is 0.
//
// With error_if_nonfinite a norm that is not finite is an Error, and nothing is written; the host waits for the norm
// then. Without it NaN and zeros get into the gradients, as in PyTorch.
Array clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);
Array clip_grad_norm_(const std::vector<NamedTensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);

// Computes only the norm.
Array grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2);

// Brings each number of the gradients into [-clip_value, clip_value]. A NaN stays.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(const std::vector<NamedTensor>& parameters, double clip_value);

}  // namespace tandem::optim
