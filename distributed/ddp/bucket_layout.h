// Divides gradients into buckets, and defines the order in which the buckets are reduced. All functions are pure
// functions of the parameters.
#pragma once

#include <tandem/autograd/tensor.h>

#include <cstddef>
#include <vector>

namespace tandem::distributed {

// PyTorch's defaults: 25 MiB for each bucket, but only 1 MiB for the first, so communication starts early.
struct BucketSizes {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

// Indices of parameters, by bucket.
using BucketLayout = std::vector<std::vector<std::size_t>>;

// Returns the order in which gradients are expected before the first backward pass: the parameter that was registered
// last comes first. It omits parameters that don't require a gradient.
std::vector<std::size_t> reverse_registration_order(const std::vector<NamedTensor>& parameters);

// Assigns the parameters in `order` to buckets, in that order. All parameters of a bucket have the same dtype. A bucket
// is full when its parameters have at least `sizes.bytes`. For the first bucket of each dtype, the limit is
// `sizes.first_bytes`. A bucket is ready when the gradient of its last parameter is ready. The buckets are sorted by
// the position of that parameter in `order`, so no bucket waits for a bucket that is ready later.
BucketLayout assign_buckets(const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& order,
                            BucketSizes sizes);

}  // namespace tandem::distributed
