// PowerSGD: gradients sent as products of two thin matrices.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstdint>

namespace tandem::distributed {

struct PowerSGDOptions {
  std::int64_t rank = 1;            // columns of the thin matrices: with more of them, P Q^T is closer to M
  std::int64_t start_step = 1000;   // earlier steps send gradients as they are, because they change fast then
  double min_compression_rate = 2;  // a gradient that would not become so many times smaller is sent as it is
  bool error_feedback = true;       // what one step's product left out of a gradient is added to the next step's
  bool warm_start = true;           // Q begins as the last step's Q instead of random numbers
  std::uint64_t seed = 0;           // of the random numbers; the same on all ranks
};

// A gradient of two or more dimensions is a matrix M (first dimension, product of the others). The ranks send thin
// matrices P (rows, rank) and Q (columns, rank) instead, with P Q^T close to M, by one step of the power method:
// P = M Q is averaged over the ranks and made orthonormal; then Q = M^T P is averaged. Biases, gradients that would not
// shrink and dtypes other than f32 are sent as they are. The mean is not exact. Error feedback makes up for that over
// the steps, and keeps a copy of each compressed gradient. One hook serves one DistributedDataParallel. It is a
// StatefulHook: a job that resumes from a checkpoint has the bits of one that never stopped. (Vogels, Karimireddy,
// Jaggi, "PowerSGD", NeurIPS 2019, arXiv:1905.13727.)
CommunicationHook powersgd_hook(const PowerSGDOptions& options = {});

}  // namespace tandem::distributed
