// Zeros at random positions. A key decides which positions (core/random/dropout_mask.h).
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/device/device.h>

#include <cstdint>

namespace tandem {

namespace ops {

// Draws a key from this thread's default generator. While a graph is recorded on a GPU, each replay draws the key
// again, except for the first replay, which uses the number drawn while recording. A recorded step therefore drops the
// same elements as a step that runs call by call. Calls that draw the same number, as in recomputation, share one key.
DropoutKey draw_dropout_key(Device device);

// Returns x / (1 - p) where the random number of the position is p or more, and 0 elsewhere. Positions are counted in
// memory order, so x is made dense first: channels last if `channels_last`, otherwise row-major. The result has the
// same order.
Array dropout(const Array& x, const DropoutKey& key, double p, bool channels_last);

}  // namespace ops

}  // namespace tandem
