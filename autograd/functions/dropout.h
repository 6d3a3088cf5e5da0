// Dropout (Hinton et al., arXiv:1207.0580): in training, zeros in random places.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

// In training each number becomes 0 with probability p, and the other numbers are divided by 1 - p. In evaluation the
// result is x. One draw from this thread's default generator decides which numbers become 0, so that manual_seed()
// repeats them. They depend on the place in memory, are the same on every device, and differ from those that PyTorch
// drops. In a recorded graph each replay makes its own draw.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
// Makes whole channels of x (N, C, ...) zero.
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace tandem
