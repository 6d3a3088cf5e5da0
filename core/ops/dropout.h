// Zeros in random places; which ones is a function of a key (core/random/dropout_mask.h).
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

namespace tandem::ops {

// x / (1 - p) where the random number that `key` gives the place is p or more, 0 elsewhere. Places are counted in
// memory, where x is dense: `channels_last` says in which of the two orders; the result has it too.
Array dropout(const Array& x, std::uint64_t key, double p, bool channels_last);

}  // namespace tandem::ops
