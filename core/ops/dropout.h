// Zeros in random places. A key decides which places (core/random/dropout_mask.h).
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

namespace tandem::ops {

// x / (1 - p) where the random number that `key` gives the place is p or more, and 0 elsewhere. Places are counted in
// memory order, so x is made dense first: channels last where `channels_last` says so, else row-major. The result has
// the same order.
Array dropout(const Array& x, std::uint64_t key, double p, bool channels_last);

}  // namespace tandem::ops
