// The division of gradients into buckets, and the order in which the buckets are reduced. Pure functions of the
// parameters.
#pragma once

#include <tandem/autograd/tensor.h>

#include <cstddef>
#include <vector>

namespace tandem::distributed {

// PyTorch's defaults: 1 MiB for the first bucket, which is small so that communication starts early, and 25 MiB for
// each of the others.
struct BucketSizes {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

// Indices of parameters, bucket after bucket.
using BucketLayout = std::vector<std::vector<std::size_t>>;

// The order in which gradients are expected before any have been seen: the last registered first, without the
// parameters that require no gradient.
std::vector<std::size_t> reverse_registration_order(const std::vector<NamedTensor>& parameters);

// Puts the parameters that `order` names into buckets, in that order. A bucket holds parameters of one dtype. It takes
// parameters until they have `sizes.bytes` or more; for the first bucket of each dtype the limit is
// `sizes.first_bytes`. A bucket is ready when the gradient of its last parameter is. The buckets are sorted by the
// place of that parameter in `order`, so that no bucket waits for one that is ready later.
BucketLayout assign_buckets(const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& order,
                            BucketSizes sizes);

}  // namespace tandem::distributed
