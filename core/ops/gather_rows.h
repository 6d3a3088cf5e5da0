// The rows of an Array that a list names: how the batches of a data set in memory are made.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::ops {

// Takes the rows of `rows` (R, ...) that `index` (N) i64 names and gives (N, ...), in the layout of `rows`. `rows` is
// copied first when its rows are not dense. On the CPU only one thread copies, because data loaders, which call this,
// have threads of their own.
Array gather_rows(const Array& rows, const Array& index);
// As gather_rows, from u8 to f32: (byte / 255 - mean) / std.
Array gather_normalized(const Array& rows, const Array& index, float mean = 0, float std = 1);

}  // namespace tandem::ops
