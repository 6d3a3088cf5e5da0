// Dropout (Hinton et al., arXiv:1207.0580): in training, zeros in random places.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

// Each number becomes 0 with probability p, the others are divided by 1 - p; x itself in evaluation. Which ones is
// drawn from this thread's default generator, so manual_seed() repeats it, on every device alike (a function of the
// place in memory); they are not the ones that PyTorch drops. Error while a graph is recorded, whose replays would all
// drop the same.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
// Whole channels of x (N, C, ...).
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace tandem
