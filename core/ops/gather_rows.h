// Copies selected rows of an Array. Data sets in memory use it to assemble batches.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::ops {

// Returns (N, ...) with the rows of `rows` (R, ...) that `index` (N) i64 selects, in the layout of `rows`. If the rows
// are not dense, `rows` is copied first. On the CPU only one thread copies, because the callers, data loaders, have
// their own threads.
Array gather_rows(const Array& rows, const Array& index);
// Like gather_rows, from u8 to f32: (byte / 255 - mean) / std.
Array gather_normalized(const Array& rows, const Array& index, float mean = 0, float std = 1);

}  // namespace tandem::ops
