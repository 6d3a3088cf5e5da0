// By position.
#pragma once

#include <tandem/core/array.h>

namespace tandem::ops {

// The rows of `rows` (R, ...) that `index` (N) i64 names -> (N, ...), in the layout of `rows`, which is copied where its rows
// are not dense. An index that is no row is an Error, on a GPU at the next synchronisation.
Array gather_rows(const Array& rows, const Array& index);
// The same from u8 to f32: (byte / 255 - mean) / std.
Array gather_normalized(const Array& rows, const Array& index, float mean = 0, float std = 1);

}  // namespace tandem::ops
