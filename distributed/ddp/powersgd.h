// PowerSGD: sends gradients as products of two thin matrices.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

#include <cstdint>

namespace tandem::distributed {

struct PowerSGDOptions {
  std::int64_t rank = 1;            // columns of the thin matrices; with more columns, P Q^T is closer to M
  std::int64_t start_step = 1000;   // earlier steps send gradients uncompressed, because they change fast
  double min_compression_rate = 2;  // gradients with a lower rate are sent uncompressed
  bool error_feedback = true;       // whether the next step adds the part of the gradient that a product lost
  bool warm_start = true;           // whether Q starts as the last step's Q instead of random numbers
  std::uint64_t seed = 0;           // of the random numbers; the same on all ranks
};

// Treats a gradient of two or more dimensions as a matrix M (first dimension, product of the others). Instead of M, the
// ranks send thin matrices P (rows, rank) and Q (columns, rank), such that P Q^T is close to M. They come from one step
// of the power method: P = M Q is averaged over the ranks and orthonormalised, and then Q = M^T P is averaged. Biases,
// gradients that would not shrink, and dtypes other than f32 are sent uncompressed. The mean is not exact. Error
// feedback compensates for that in later steps, and keeps a copy of each compressed gradient. A hook serves only one
// DistributedDataParallel. It is a StatefulHook: a job that resumes from a checkpoint gets results bitwise identical to
// a job that never stopped. (Vogels, Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019, arXiv:1905.13727.)
CommunicationHook powersgd_hook(const PowerSGDOptions& options = {});

}  // namespace tandem::distributed
