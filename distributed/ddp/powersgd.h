// PowerSGD: gradients sent as products of two thin matrices.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstdint>

namespace tandem::distributed {

struct PowerSgdOptions {
  std::int64_t rank = 1;            // columns of the thin matrices: more is closer, and more to send
  std::int64_t start_step = 1000;   // plain all-reduce before, while gradients change fast
  double min_compression_rate = 2;  // send a gradient as it is unless that makes it so many times smaller
  bool error_feedback = true;       // what was left out of one step's gradient is added to the next one's
  bool warm_start = true;           // begin with the last step's Q instead of random numbers
  std::uint64_t seed = 0;           // of those; the same on all ranks
};

// A gradient, as a matrix M of (first dimension, all others), becomes P Q^T of the given rank by one step of the power
// method: P = M Q, averaged over ranks and made orthonormal; Q = M^T P, averaged. Biases and what does not shrink
// travel as they are. The mean is not exact: error feedback makes up for it over the steps, at the price of a copy of
// each compressed gradient. f32 only; other dtypes travel as they are. One hook serves one DistributedDataParallel.
// (Vogels, Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019, arXiv:1905.13727.)
CommunicationHook powersgd_hook(const PowerSgdOptions& options = {});

}  // namespace tandem::distributed
