// Which gradients share a bucket, and in which order the buckets are reduced. Pure functions of the parameters.
#pragma once

#include <tandem/autograd/tensor.h>

#include <cstddef>
#include <vector>

namespace tandem::distributed {

struct BucketSizes {
  // PyTorch's sizes. The first bucket is small, so that communication starts early.
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

// Indices of parameters, bucket after bucket.
using BucketLayout = std::vector<std::vector<std::size_t>>;

// The order in which gradients are expected before any have been seen: the last registered first, without the
// parameters that require no gradient.
std::vector<std::size_t> reverse_registration_order(const std::vector<NamedTensor>& parameters);

// Puts the parameters that `order` names into buckets, in that order. A bucket holds one dtype. It is closed once it
// holds its size or more; the first bucket of each dtype is the small one. Buckets are sorted by their last gradient's
// place in `order`, so that no bucket waits for another one that is ready later.
BucketLayout assign_buckets(const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& order,
                            BucketSizes sizes);

// Where each gradient of a bucket lies in its memory: at multiples of 64 bytes (a cache line, and the widest
// vector register).
struct BucketMemory {
  std::vector<std::size_t> offsets;  // bytes
  std::size_t bytes = 0;             // of all together
};
BucketMemory lay_out(const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& bucket);

}  // namespace tandem::distributed
