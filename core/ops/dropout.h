// Zeros in random places. A key decides which places (core/random/dropout_mask.h).
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/device/device.h>

#include <cstdint>

namespace tandem {

namespace ops {

// Draws a key from this thread's default generator. While a graph is recorded on a GPU, the recording gets a key that
// each replay draws again, except the first replay, which uses the one that was drawn while recording. A recorded step
// therefore drops the same elements as a step that runs call by call. Calls that draw the same number, as recomputation
// does, get one key.
DropoutKey draw_dropout_key(Device device);

// x / (1 - p) where the random number that `key` gives the place is p or more, and 0 elsewhere. Places are counted in
// memory order, so x is made dense first: channels last where `channels_last` says so, else row-major. The result has
// the same order.
Array dropout(const Array& x, const DropoutKey& key, double p, bool channels_last);

}  // namespace ops

}  // namespace tandem
