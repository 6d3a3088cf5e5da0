// An arena: many arrays side by side in one block of memory. One pass can update all of them, and one copy can save
// them.
#pragma once

#include <tandem/core/array/array.h>

#include <span>
#include <vector>

namespace tandem::optim {

// Makes arrays in one block, with the shapes, dtypes, memory orders and the device of `like`. An array is dense also
// where that of `like` has gaps. Each array begins on a 64-byte boundary and has a version count of its own. The
// numbers are uninitialised. The block lives as long as any of the arrays.
std::vector<Array> arena_like(std::span<const Array> like);

}  // namespace tandem::optim
