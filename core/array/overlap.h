// Tests whether an operation that writes to one Array may change elements of another that it has yet to read.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem {

// Returns whether writing to `target`, in any order, may change elements of `source` before they are read. `source`
// broadcasts to the shape of `target`. Returns false if both have the same layout: each element is then read just
// before its own position is written.
bool overlap(const Array& target, const Array& source);

}  // namespace tandem
