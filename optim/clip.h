// Clipping of gradients, between backward() and step(). Unlike an optimizer this writes the gradients, in place: where
// they are views of communication buckets, after the ranks have averaged them, so that all ranks clip alike without a
// message.
#pragma once

#include <tandem/autograd/tensor.h>

#include <vector>

namespace tandem::optim {

// Multiplies all gradients (f32, of one device) by max_norm / (norm + 1e-6) where that is below 1, norm being that of
// all their numbers as one vector: (sum of |g|^norm_type)^(1 / norm_type), or the largest |g| where norm_type is
// infinity. Returns the norm, () f32, on their device: nothing waits for it. Parameters without gradient don't count;
// none at all: 0. A norm that is not finite: with error_if_nonfinite an error, before anything is written, for which
// the host must wait; without, NaN and zeros get into the gradients, as in PyTorch.
Array clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);
Array clip_grad_norm_(const std::vector<NamedTensor>& parameters, double max_norm, double norm_type = 2,
                      bool error_if_nonfinite = false);

// The norm alone.
Array grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2);

// Brings each number of the gradients into [-clip_value, clip_value]. A NaN stays.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(const std::vector<NamedTensor>& parameters, double clip_value);

}  // namespace tandem::optim
