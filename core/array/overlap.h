// Whether an operation that writes to one Array may change what it has still to read from another.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem {

// `source` broadcasts to the shape of `target`, which may be written in any order. False where each element is written
// to its own place: it is read before.
bool overlap(const Array& target, const Array& source);

}  // namespace tandem
